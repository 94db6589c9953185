// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol

/// Launches and receipts that were sealed and signed beforehand, so that only the relay's part is measured. Each pair of
/// sender and target has one launch in flight.
struct RelayLaunches: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "relay-launches")

    @OptionGroup var setting: Setting
    @Option var senders = 8
    @Option var targets = 8
    @Option(help: "For each pair.") var count = 200
    @Option(help: "The relay's process, whose processor time is told then.") var server: Int32?

    func run() async throws {
        let (target, person) = (try setting.target(), try setting.thePerson())
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let keys = LightEndpoint.Keys()
        func make(_ name: String) -> LightEndpoint { LightEndpoint(name, at: target, person: person, keys: keys, on: loop) }
        let targets = (0..<targets).map { make("Target \($0)") }
        let senders = (0..<senders).map { make("Sender \($0)") }
        let race = Race(senders: senders, targets: targets)
        for endpoint in targets { await endpoint.connect(race.targetDelegate) }
        for endpoint in senders { await endpoint.connect(race.senderDelegate) }
        let began = ContinuousClock.now
        try await race.seal(count)
        let sealing = ContinuousClock.now - began
        let before = try server.map(Self.processorSeconds)
        await race.run()
        let spent = try server.map(Self.processorSeconds)
        let took = race.duration
        let launches = Double(count * senders.count * targets.count)
        report([
            "launches": launches,
            "seconds": took,
            "serverSeconds": (spent ?? .nan) - (before ?? .nan),
            "perSecond": launches / took,
            "p50Milliseconds": race.samples.percentile(0.5) * 1e3,
            "p99Milliseconds": race.samples.percentile(0.99) * 1e3,
            "sealMicroseconds": sealing.inSeconds / launches * 1e6,
        ])
    }

    /// See proc(5). The program's name is in parentheses and may contain any character.
    private static func processorSeconds(of process: Int32) throws -> Double {
        let line = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)
        let fields = line[(line.lastIndex(of: ")") ?? line.startIndex)...].split(separator: " ")
        guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else {
            throw ValidationError("/proc/\(process)/stat is odd")
        }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Used on one event loop, except for the preparation before the start.
    private final class Race: @unchecked Sendable {
        private struct Prepared {
            let id: CommandID
            let command: Blob<BlobKinds.Command>
            let receipt: Blob<BlobKinds.Receipt>
        }

        private let senders: [LightEndpoint]
        private let targets: [LightEndpoint]
        private var lanes: [[Prepared]] = []
        private var receipts: [CommandID: Blob<BlobKinds.Receipt>] = [:]
        private var laneOf: [CommandID: (lane: Int, sent: NIODeadline)] = [:]
        private var open = 0
        private var began = NIODeadline.now()
        private var ended: Once?
        private(set) var samples = Samples()
        private(set) var duration = 0.0

        init(senders: [LightEndpoint], targets: [LightEndpoint]) { (self.senders, self.targets) = (senders, targets) }

        func seal(_ count: Int) async throws {
            var ids = CommandIDGenerator()
            var random = SystemRandomNumberGenerator()
            for sender in senders {
                let account = await sender.account
                for target in targets {
                    let record = try await target.currentRecord().payload
                    lanes.append(
                        try (1...count).map { number in
                            let now = Int64(Date().timeIntervalSince1970 * 1_000)
                            let id = ids.next(now: UInt64(now), using: &random)
                            let command = try SealedCommand(
                                .launch(.init(uri: try LaunchURI("https://www.example.org/film"))),
                                header: CommandHeader(
                                    id: id,
                                    account: account,
                                    relay: sender.relay,
                                    sender: sender.id,
                                    target: target.id,
                                    senderApp: nil,
                                    targetApp: benchmarkApp,
                                    keyID: record.agreementKey.keyID,
                                    kind: .launch,
                                    number: UInt64(number),
                                    created: now,
                                    expires: now + 300_000
                                ),
                                target: record.agreementKey,
                                key: sender.identityKey
                            )
                            let receipt = CommandReceipt(for: command.descriptor, outcome: .succeeded, time: now)
                            let signed = try Signed(receipt, key: target.identityKey)
                            return Prepared(id: id, command: Blob(command.encoded), receipt: Blob(signed.encoded))
                        }
                        .reversed()
                    )
                }
            }
            for lane in lanes { for one in lane { receipts[one.id] = one.receipt } }
        }

        func run() async {
            await withCheckedContinuation { continuation in
                ended = Once(continuation)
                open = lanes.count
                let loop = senders[0].loop
                loop.execute {
                    self.began = .now()
                    for lane in self.lanes.indices { self.next(lane) }
                }
            }
        }

        private func next(_ lane: Int) {
            guard let one = lanes[lane].popLast() else {
                open -= 1
                guard open == 0 else { return }
                duration = Double((NIODeadline.now() - began).nanoseconds) / 1e9
                ended?.resume()
                return
            }
            laneOf[one.id] = (lane, .now())
            senders[lane / targets.count].assumeIsolated { sender in
                sender.require { .commandSend(.init(ref: $0, command: one.command)) }
            }
        }

        var targetDelegate: LightEndpoint.Delegate {
            .init(heard: { target, message in
                guard case .command(let offer) = message, let command = try? SealedCommand(decoding: offer.command.bytes),
                    let receipt = self.receipts[command.header.id]
                else { return }
                let (sender, id) = (command.header.sender, command.header.id)
                target.say(.commandReceived(.init(sender: sender, id: id)))
                target.request {
                    .commandResult(.init(ref: $0, sender: sender, id: id, receipt: receipt))
                } answer: { _, answer in
                    guard case .settled = answer else { fail("a result was not taken: \(answer)") }
                }
            })
        }

        var senderDelegate: LightEndpoint.Delegate {
            .init(heard: { sender, message in
                guard case .commandStatus(let status) = message, case .attestedByTarget = status.status,
                    let (lane, sent) = self.laneOf.removeValue(forKey: status.id)
                else { return }
                sender.say(.commandAcknowledge(.init(id: status.id)))
                self.samples.add(.nanoseconds((NIODeadline.now() - sent).nanoseconds))
                self.next(lane)
            })
        }
    }
}
