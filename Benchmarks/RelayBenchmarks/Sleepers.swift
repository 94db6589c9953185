// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol

/// Endpoints that sleep with a push channel while commands wait for them. It prints a line when all commands are stored. For each line of
/// standard input all endpoints connect at once, handle what waits and disconnect, and it prints a line about that. Runs until standard
/// input ends.
struct Sleepers: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var count = 10_000
    @Option(help: "How many of them are of one person.") var devices = 40
    @Option(help: "How many commands wait for each.") var commands = 10
    @Option(help: "How many persons send at once.") var pace = 8

    func run() async throws {
        let (target, persons) = (try setting.target(), try setting.persons())
        let people = (count + devices - 1) / devices
        guard persons.count >= people else { throw ValidationError("\(count) endpoints need more persons") }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let keys = LightEndpoint.Keys()
        let began = ContinuousClock.now
        var sleepers: [Sleeper] = []
        try await withThrowingTaskGroup(of: [Sleeper].self) { group in
            for person in 0..<people {
                if person >= pace, let more = try await group.next() { sleepers += more }
                let number = min(devices, count - person * devices)
                func make(_ name: String) -> LightEndpoint {
                    LightEndpoint(name, at: target, person: persons[person], keys: keys, on: loop)
                }
                let sender = make("Sender")
                let targets = (0..<number).map { make("Device \($0)") }
                group.addTask { try await Self.fill(targets, from: sender, commands) }
            }
            for try await more in group { sleepers += more }
        }
        report(["commands": Double(count * commands), "seconds": (ContinuousClock.now - began).inSeconds])
        while readLine() != nil { report(try await Self.wake(sleepers)) }
    }

    /// Lets targets register and disconnect, and sends them commands.
    private static func fill(_ targets: [LightEndpoint], from sender: LightEndpoint, _ count: Int) async throws -> [Sleeper] {
        // The devices know the sender, which was there before.
        await sender.connect()
        var sleepers: [Sleeper] = []
        for target in targets {
            let sleeper = Sleeper(target)
            try await sleeper.register()
            sleepers.append(sleeper)
        }
        var ids = CommandIDGenerator()
        for number in 1...count {
            for sleeper in sleepers { try await sleeper.send(number, from: sender, &ids) }
        }
        await sender.stop()
        return sleepers
    }

    private static func wake(_ sleepers: [Sleeper]) async throws -> [String: Double] {
        let began = ContinuousClock.now
        let results = await withTaskGroup { group in
            for sleeper in sleepers { group.addTask { await sleeper.drain() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        let seconds = (ContinuousClock.now - began).inSeconds
        let errors = results.reduce(into: [:]) { $0.merge($1.errors, uniquingKeysWith: +) }
        for (error, count) in errors { FileHandle.standardError.write(Data("   \(count) times: \(error)\n".utf8)) }
        for sleeper in sleepers { await sleeper.endpoint.stop() }
        return [
            "seconds": seconds, "commands": Double(results.reduce(0) { $0 + $1.commands }),
            "errors": Double(errors.values.reduce(0, +)),
        ]
    }
}

/// An endpoint and the receipts for the commands that wait for it. Used on the endpoint's event loop, and by one task before it is woken.
private final class Sleeper: @unchecked Sendable {
    struct Result {
        var commands = 0
        /// How often which request was refused, or which connection ended.
        var errors: [String: Int] = [:]
    }

    let endpoint: LightEndpoint
    private var receipts: [CommandID: Blob<BlobKinds.Receipt>] = [:]
    private var result = Result()
    private var isDrained = false
    private var ended: Once?

    init(_ endpoint: LightEndpoint) { self.endpoint = endpoint }

    func register() async throws {
        await endpoint.connect()
        let registration = Blob<BlobKinds.AppRegistration>(try await endpoint.currentRegistration().encoded)
        try await endpoint.ask { .publish(.init(ref: $0, registration: registration)) }
        let token = PushRegistration.fcm(token: Secret("\(endpoint.id)"))
        try await endpoint.ask {
            .notificationsRegister(.init(ref: $0, appID: benchmarkApp, displayName: "Player", channel: token))
        }
        await endpoint.stop()
    }

    func send(_ number: Int, from sender: LightEndpoint, _ ids: inout CommandIDGenerator) async throws {
        let record = try await endpoint.currentRecord().payload
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        var random = SystemRandomNumberGenerator()
        let header = CommandHeader(
            id: ids.next(now: UInt64(now), using: &random),
            account: await sender.account,
            relay: sender.relay,
            sender: sender.id,
            target: endpoint.id,
            senderApp: nil,
            targetApp: benchmarkApp,
            keyID: record.agreementKey.keyID,
            kind: .message,
            number: UInt64(number),
            created: now,
            expires: now + 86_400_000
        )
        let body = CommandBody.message(service: "echo", ["Number": .int(Int64(number))])
        let command = try SealedCommand(body, header: header, target: record.agreementKey, key: sender.identityKey)
        let receipt = CommandReceipt(for: command.descriptor, outcome: .succeeded, time: now)
        receipts[header.id] = Blob(try Signed(receipt, key: endpoint.identityKey).encoded)
        let blob = Blob<BlobKinds.Command>(command.encoded)
        try await sender.ask { .commandSend(.init(ref: $0, command: blob)) }
    }

    /// Connects, and handles what waits.
    func drain() async -> Result {
        await withCheckedContinuation { continuation in
            endpoint.loop.execute {
                self.ended = Once(continuation)
                self.endpoint.assumeIsolated { $0.start(self.delegate) }
            }
        }
        return result
    }

    private var delegate: LightEndpoint.Delegate {
        .init(
            connected: { endpoint in
                endpoint.request {
                    .mailboxDrain(.init(ref: $0))
                } answer: { _, answer in
                    self.isDrained = true
                    self.check(answer)
                }
            },
            disconnected: { _, reason in if self.ended != nil { self.result.errors["\(reason)", default: 0] += 1 } },
            heard: { endpoint, message in
                guard case .command(let offer) = message, let command = try? SealedCommand(decoding: offer.command.bytes),
                    let receipt = self.receipts[command.header.id]
                else { return }
                let (sender, id) = (command.header.sender, command.header.id)
                endpoint.say(.commandReceived(.init(sender: sender, id: id)))
                endpoint.request {
                    .commandResult(.init(ref: $0, sender: sender, id: id, receipt: receipt))
                } answer: { _, answer in
                    self.receipts[id] = nil
                    self.result.commands += 1
                    self.check(answer)
                }
            }
        )
    }

    private func check(_ answer: ControlAnswer) {
        switch answer {
        case .ok, .settled: break
        case .failure(let failure): result.errors["refused: \(failure.message)", default: 0] += 1
        case .connectionLost: result.errors["a request without an answer", default: 0] += 1
        }
        guard isDrained, receipts.isEmpty else { return }
        ended?.resume()
        ended = nil
    }
}
