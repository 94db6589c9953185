// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Attacks on a running relay, each while another account uses it from another address. With `DEVICE_RELAY_ATTACK` set to a number of
/// requests, as `scripts/attack` does, their times are measured and printed; without, only that each is answered counts.
@Suite(.serialized, .timeLimit(.minutes(30))) struct UnderAttackTests {
    /// KiB that the relay may hold at the worst moment.
    static let memoryCeiling = 384 << 10
    /// KiB that it may hold more afterwards than before; a system's allocator keeps some of what it had.
    static let memoryKept = 96 << 10
    static let linesPerSecond = 10
    /// How many times slower one request of a hundred may be than without an attack, if it takes longer than `unnoticed`.
    static let slowdown = 5.0
    /// Milliseconds that a person does not notice. An unloaded run's p99 is a third of a millisecond, and varies by more than that.
    static let unnoticed = 5.0
    /// How many milliseconds it may take at all.
    static let longest = 100.0
    /// KiB that the relay may take more during an attack.
    static let memoryGrowth = 150 << 10
    /// KiB of the two hashes of passwords that run at a time, when a person signs in.
    static let memoryOfHashes = 256 << 10
    /// How often a bound on time may be missed, as it is when something else uses the machine meanwhile.
    static let tries = 3

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isRaised: Bool { value.load(ordering: .relaxed) }
        func raise() { value.store(true, ordering: .relaxed) }
    }

    private struct Row {
        var attack: String
        var asksForWork: Bool
        var count: Int
        var p99: [Double]
        /// The calmer of the times before and after.
        var unloaded: [Double]
        var peak: Int
        var after: Int
        var tries: Int

        var isKept: Bool {
            zip(p99, unloaded).allSatisfy { $1 == .infinity || ((asksForWork || $0 <= max($1 * slowdown, unnoticed)) && $0 <= longest) }
        }
    }

    /// A relay, and an account that uses it.
    private struct Scene: @unchecked Sendable {
        let relayd: RelaydProcess
        let securePort: Int
        let victim: Victim
        let arrivals: Arrivals
        /// Files beside those of the relay.
        let directory: URL
        let log: URL
        let vitals: Vitals
        let measured: Int?

        /// - Parameter limits: Limits of the relay that differ from their defaults.
        init(limits: [String] = []) async throws {
            measured = ProcessInfo.processInfo.environment["DEVICE_RELAY_ATTACK"].flatMap { Int($0) }
            directory = FileManager.default.temporaryDirectory.appending(path: "attack-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
            log = directory.appending(path: "log")
            #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
            // A port that was just free.
            securePort = try await RelaydProcess().port
            let limits = measured == nil ? limits.flatMap { ["--limit", $0] } : []
            let (issuer, arguments) = try await Arrivals.issuer(in: directory)
            relayd = try await RelaydProcess(
                arguments: ["--listen", "0.0.0.0:\(securePort)", "--log-level", "info"] + arguments + limits
            )
            relayd.standardError = try FileHandle(forWritingTo: log)
            _ = try await relayd.start()
            for name in ["Anna", "Eve"] { _ = try await relayd.run("account", "add", name) }
            victim = try await Victim.join(relayd)
            arrivals = try await Arrivals(at: relayd, issuer: issuer)
            vitals = Vitals(relayd, log: log)
        }

        /// What one attack works with.
        func field(crowd: Int) async throws -> Attack.Field {
            let mallory = WireEndpoint("Mallory", at: relayd)
            mallory.token = "of.no.issuer"
            let browser = SignInBrowser(origin: relayd.origin)
            let page = try await browser.get("/auth/login")
            return Attack.Field(
                port: relayd.port,
                securePort: securePort,
                tunnelPort: victim.tunnelPort,
                eve: try await Victim.endpoint("Eve", of: "Eve", at: relayd),
                otherEve: try await Victim.endpoint("Eve's other", of: "Eve", at: relayd),
                mallory: mallory,
                form: (try #require(page.field("form_code")), try #require(browser.secrets["relay-browser"])),
                crowd: crowd
            )
        }
    }

    @Test func otherAccountsAreServedAndMemoryStaysBounded() async throws {
        let only = ProcessInfo.processInfo.environment["DEVICE_RELAY_ATTACK_ONLY"]
        // The relay ends connections without a hello while the test lasts.
        let scene = try await Scene(limits: ["helloSeconds=3"])
        defer { try? FileManager.default.removeItem(at: scene.directory) }
        let (relayd, victim, arrivals, vitals, measured) = (scene.relayd, scene.victim, scene.arrivals, scene.vitals, scene.measured)
        let field = try await scene.field(crowd: measured == nil ? 400 : 4_000)
        let (count, pause) = (measured ?? 40, Duration.milliseconds(measured == nil ? 10 : 2))
        // The first ones find everything cold.
        _ = try await onThread { try victim.ask(50, pause: .zero) }
        let (memory, files, lines) = (vitals.memory, vitals.openFiles, vitals.lines)
        // Only a measurement uses these priorities. Beside other tests, a thread of low priority would not run.
        let (asking, attacking): (Urgency, Urgency) = measured == nil ? (.usual, .usual) : (.most, .least)
        func unloaded() async throws -> [Double] {
            guard measured != nil else { return [.infinity, .infinity] }
            return Self.p99(try await onThread(urgency: asking) { try victim.ask(count, pause: pause) })
        }
        func row(_ attack: Attack, tries: Int, before: [Double]) async throws -> Row {
            vitals.forgetPeak()
            let isOver = Flag()
            async let times = {
                defer { isOver.raise() }
                let times = try await onThread(urgency: asking) { try victim.ask(count, pause: pause) }
                if attack.hindersArrivals { try await arrivals.come() }
                return times
            }()
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
            let hashes = attack.hindersArrivals ? Self.memoryOfHashes : 0
            #expect(peak < Self.memoryCeiling + hashes, "\(attack.name)")
            if measured != nil { #expect(peak - memory < Self.memoryGrowth + hashes, "\(attack.name)") }
            #expect(done > 0, "\(attack.name)")
            // What the attacker held is given back.
            #expect(try await eventually { vitals.openFiles <= files }, "\(attack.name)")
            let unloaded = zip(before, try await unloaded()).map(min)
            return Row(
                attack: attack.name,
                asksForWork: attack.asksForWork,
                count: done,
                p99: p99,
                unloaded: unloaded,
                peak: peak,
                after: vitals.memory,
                tries: tries
            )
        }
        var rows: [Row] = []
        let isOver = Flag()
        defer { isOver.raise() }
        if measured != nil { keepProcessorsAwake { isOver.isRaised } }
        for attack in Attack.all where only == nil || attack.name.contains(only ?? "") {
            var last = try await row(attack, tries: 1, before: try await unloaded())
            while !last.isKept, last.tries < Self.tries {
                print("\(last)")
                last = try await row(attack, tries: last.tries + 1, before: try await unloaded())
            }
            rows.append(last)
            if measured != nil { print("\(last)") }
        }
        #expect(try await eventually { vitals.memory < memory + Self.memoryKept })
        // New clients are served as before.
        _ = try await onThread { try RawWebSocket(port: field.port, from: Attack.Field.address(0)).frame() }
        _ = try await onThread { try victim.ask(1, pause: .zero) }
        let logged = vitals.logged(after: lines)
        #expect(logged.most < Self.linesPerSecond)
        #expect(try await relayd.stop() == 0)
        if measured != nil { report(rows, memory: memory, logged: logged) }
    }

    /// Each attack has endpoints and a thread of its own. None of the other accounts' work fails. The relay's limits are times, so this needs
    /// a machine of its own: beside other tests, all attacks together take longer than a client may.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_ATTACK"] != nil, "scripts/attack --floods runs it"))
    func anAccountLaunchesAndCallsWhileAllAttacksRunAtOnce() async throws {
        let scene = try await Scene()
        defer { try? FileManager.default.removeItem(at: scene.directory) }
        let (victim, arrivals, vitals) = (scene.victim, scene.arrivals, scene.vitals)
        let measured = try #require(scene.measured)
        var fields: [Attack.Field] = []
        for _ in Attack.all { fields.append(try await scene.field(crowd: 400)) }
        _ = try await onThread { try victim.ask(50, pause: .zero) }
        let (memory, files) = (vitals.memory, vitals.openFiles)
        vitals.forgetPeak()
        let isOver = Flag()
        keepProcessorsAwake { isOver.isRaised }
        let (times, attempts) = try await withThrowingTaskGroup(of: Int.self) { attacks in
            for (attack, field) in zip(Attack.all, fields) {
                attacks.addTask {
                    try await onThread(urgency: .least) {
                        var count = 0
                        while !isOver.isRaised {
                            // A rejected client tries again.
                            count += (try? attack.run(field) { isOver.isRaised }) ?? 0
                            Thread.sleep(forTimeInterval: 0.001)
                        }
                        return count
                    }
                }
            }
            defer { isOver.raise() }
            let times = try await onThread(urgency: .most) {
                var times = Victim.Times()
                for round in 0..<measured / 4 {
                    let asked = try victim.ask(4, pause: .milliseconds(5))
                    times.requests += asked.requests
                    times.trips += asked.trips
                    try victim.launch()
                    if round % 4 == 0 { try victim.call() }
                }
                return times
            }
            for _ in 0..<3 { try await arrivals.come() }
            isOver.raise()
            var attempts = 0
            for try await count in attacks { attempts += count }
            return (times, attempts)
        }
        #expect(attempts > 0)
        let (p99, peak) = (Self.p99(times), vitals.peakMemory)
        print("ATTACK")
        print(
            String(
                format: "ATTACK All at once: request p99 %.2f ms, tunnel p99 %.2f ms, memory at most %d MiB (%d MiB before).",
                p99[0],
                p99[1],
                peak >> 10,
                memory >> 10
            )
        )
        #expect(p99.allSatisfy { $0 <= Self.longest }, "\(p99)")
        #expect(peak - memory < Self.memoryGrowth + Self.memoryOfHashes)
        #expect(peak < Self.memoryCeiling + Self.memoryOfHashes)
        #expect(try await eventually { vitals.openFiles <= files })
        #expect(try await eventually { vitals.memory < memory + Self.memoryKept })
        _ = try await onThread { try victim.launch() }
        #expect(try await scene.relayd.stop() == 0)
    }

    private static func p99(_ times: Victim.Times) -> [Double] {
        [times.requests, times.trips].map { $0.sorted()[$0.count * 99 / 100] * 1_000 }
    }

    private func report(_ rows: [Row], memory: Int, logged: (most: Int, all: Int)) {
        print(
            "ATTACK | attack | times | request p99, unloaded | attacked | ratio | tunnel p99, unloaded | attacked | ratio | memory at most | after |"
        )
        print("ATTACK | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        print("ATTACK | none | | | | | | | | | \(memory >> 10) MiB |")
        for row in rows {
            let times = zip(row.unloaded, row.p99).map { String(format: "%.2f ms | %.2f ms | %.1f", $0, $1, $1 / $0) }.joined(
                separator: " | "
            )
            print("ATTACK | \(row.attack) | \(row.count) | \(times) | \(row.peak >> 10) MiB | \(row.after >> 10) MiB |")
        }
        print("ATTACK\nATTACK Log lines: \(logged.all) in all, at most \(logged.most) in one second.")
        let repeated = rows.filter { $0.tries > 1 }.map { "\($0.attack) (\($0.tries) times)" }
        if !repeated.isEmpty { print("ATTACK Measured again: \(repeated.joined(separator: ", ")).") }
        for row in rows { #expect(row.isKept, "\(row.attack): \(row.p99)") }
    }
}
#endif
