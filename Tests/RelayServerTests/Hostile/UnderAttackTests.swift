// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Attacks on a running relay, each while somebody else uses it from another address. With `DEVICE_RELAY_ATTACK` set to a number of
/// requests, as `scripts/attack` does, their times are measured and printed; without, only that each is answered counts.
@Suite(.timeLimit(.minutes(30))) struct UnderAttackTests {
    /// KiB that the relay may hold at the worst moment.
    static let memoryCeiling = 384 << 10
    /// KiB that it may hold more afterwards than before; a system's allocator keeps some of what it had.
    static let memoryKept = 96 << 10
    static let linesPerSecond = 10
    /// How many times slower one request of a hundred may be than in calm.
    static let slowdown = 5.0
    /// How often a bound on time may be missed, as it is when something else uses the machine meanwhile.
    static let tries = 3

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isRaised: Bool { value.load(ordering: .relaxed) }
        func raise() { value.store(true, ordering: .relaxed) }
    }

    private struct Row {
        var attack: String
        var count: Int
        var p99: [Double]
        /// The calmer of the times before and after.
        var calm: [Double]
        var peak: Int
        var after: Int
        var tries: Int

        var isKept: Bool { zip(p99, calm).allSatisfy { $0 <= $1 * slowdown } }
    }

    @Test func somebodyElseIsServedAndTheRelayStaysBounded() async throws {
        let measured = ProcessInfo.processInfo.environment["DEVICE_RELAY_ATTACK"].flatMap { Int($0) }
        let only = ProcessInfo.processInfo.environment["DEVICE_RELAY_ATTACK_ONLY"]
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        // A port that was just free.
        let securePort = try await RelaydProcess().port
        // Measured as it is by default; else soon enough that it shuts strangers out while the test lasts.
        let limits = measured == nil ? ["--limit", "helloSeconds=3"] : []
        let relayd = try await RelaydProcess(arguments: ["--listen", "0.0.0.0:\(securePort)", "--log-level", "info"] + limits)
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        for name in ["Anna", "Eve"] { _ = try await relayd.run("account", "add", name) }
        let victim = try await Victim.join(relayd)
        let mallory = WireEndpoint("Mallory", at: relayd)
        mallory.token = "of.no.issuer"
        let field = Attack.Field(
            port: relayd.port,
            securePort: securePort,
            tunnelPort: victim.tunnelPort,
            eve: try await Victim.endpoint("Eve", of: "Eve", at: relayd),
            otherEve: try await Victim.endpoint("Eve's other", of: "Eve", at: relayd),
            mallory: mallory,
            crowd: measured == nil ? 400 : 4_000
        )
        let vitals = Vitals(relayd, log: log)
        let (count, pause) = (measured ?? 40, Duration.milliseconds(measured == nil ? 10 : 2))
        // The first ones find everything cold.
        _ = try await onThread { try victim.ask(50, pause: .zero) }
        let (memory, files) = (vitals.memory, vitals.openFiles)
        // Only what is measured needs a machine for each; beside other tests whoever has to wait for all of them gets nothing done.
        let (asking, attacking): (Urgency, Urgency) = measured == nil ? (.usual, .usual) : (.most, .least)
        func calm() async throws -> [Double] {
            guard measured != nil else { return [.infinity, .infinity] }
            return Self.p99(try await onThread(urgency: asking) { try victim.ask(count, pause: pause) })
        }
        func row(_ attack: Attack, tries: Int, before: [Double]) async throws -> Row {
            vitals.forgetPeak()
            let isOver = Flag()
            async let times = onThread(urgency: asking) {
                defer { isOver.raise() }
                return try victim.ask(count, pause: pause)
            }
            let done = try await onThread(urgency: attacking) {
                // However soon the other is done, it is tried.
                var asked = 0
                return try attack.run(field) {
                    asked += 1
                    if attacking == .least { sched_yield() }
                    return isOver.isRaised && asked > 3
                }
            }
            let p99 = Self.p99(try await times)
            let peak = vitals.peakMemory
            #expect(peak < Self.memoryCeiling, "\(attack.name)")
            #expect(done > 0, "\(attack.name)")
            // What the attacker held is given back.
            #expect(try await eventually { vitals.openFiles <= files }, "\(attack.name)")
            let calm = zip(before, try await calm()).map(min)
            return Row(attack: attack.name, count: done, p99: p99, calm: calm, peak: peak, after: vitals.memory, tries: tries)
        }
        var rows: [Row] = []
        let isOver = Flag()
        defer { isOver.raise() }
        if measured != nil { keepProcessorsAwake { isOver.isRaised } }
        for attack in Attack.all where only == nil || attack.name.contains(only ?? "") {
            var last = try await row(attack, tries: 1, before: try await calm())
            while !last.isKept, last.tries < Self.tries {
                print("\(last)")
                last = try await row(attack, tries: last.tries + 1, before: try await calm())
            }
            rows.append(last)
            if measured != nil { print("\(last)") }
        }
        #expect(try await eventually { vitals.memory < memory + Self.memoryKept })
        // Who comes now is served like before.
        _ = try await onThread { try RawWebSocket(port: field.port, from: Attack.Field.address(0)).frame() }
        _ = try await onThread { try victim.ask(1, pause: .zero) }
        let logged = vitals.logged
        #expect(logged.most < Self.linesPerSecond)
        #expect(try await relayd.stop() == 0)
        if measured != nil { report(rows, memory: memory, logged: logged) }
    }

    private static func p99(_ times: Victim.Times) -> [Double] {
        [times.requests, times.trips].map { $0.sorted()[$0.count * 99 / 100] * 1_000 }
    }

    private func report(_ rows: [Row], memory: Int, logged: (most: Int, all: Int)) {
        print(
            "ATTACK | attack | times | request p99, calm | attacked | ratio | tunnel p99, calm | attacked | ratio | memory at most | after |"
        )
        print("ATTACK | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        print("ATTACK | none | | | | | | | | | \(memory >> 10) MiB |")
        for row in rows {
            let times = zip(row.calm, row.p99).map { String(format: "%.2f ms | %.2f ms | %.1f", $0, $1, $1 / $0) }.joined(separator: " | ")
            print("ATTACK | \(row.attack) | \(row.count) | \(times) | \(row.peak >> 10) MiB | \(row.after >> 10) MiB |")
        }
        print("ATTACK\nATTACK Log lines: \(logged.all) in all, at most \(logged.most) in one second.")
        let repeated = rows.filter { $0.tries > 1 }.map { "\($0.attack) (\($0.tries) times)" }
        if !repeated.isEmpty { print("ATTACK Measured again: \(repeated.joined(separator: ", ")).") }
        for row in rows { #expect(row.isKept, "\(row.attack): \(row.p99)") }
    }
}
#endif
