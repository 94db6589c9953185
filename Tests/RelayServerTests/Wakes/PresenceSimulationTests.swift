// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Endpoints come and go, register for wakes, are woken or not, while credentials change and time passes. What a watcher heard last of an
/// endpoint is always what a new watcher hears, and the state that a host was told last is that which a new connection is told.
@Suite(.timeLimit(.minutes(5))) struct PresenceSimulationTests {
    private struct Actor {
        var device: TestDevice
        var host: Session?
        var state: RelayMessage.NotificationsState.State?

        mutating func receive() async throws {
            for case .notificationsState(let message) in try await host?.receive() ?? [] { state = message.state }
        }
    }

    @Test(arguments: 1...Sweep.count(6 as UInt64, full: 100)) func whatAWatcherHeardLastIsTrue(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let wakes = RecordingWakes()
        let world = try await CoreWorld(wakes: wakes)
        let sender = TestDevice(subject: "me")
        let watcher = try await world.open(sender)
        var heard: [EndpointID: Presence] = [:]
        func hear(_ messages: [RelayMessage]) {
            for message in messages {
                switch message {
                case .endpointAdded(let event): heard[event.endpoint] = event.presence
                case .endpointUpdated(let event): if let presence = event.presence { heard[event.endpoint] = presence }
                case .endpointRemoved(let event): heard[event.endpoint] = nil
                default: break
                }
            }
        }
        hear(try await watcher.send(.watch(.init(ref: testRef()))))
        var actors = (0..<4).map { _ in Actor(device: TestDevice(subject: "me")) }
        var (number, reasons) = (UInt64(0), Set<String>())

        for round in 0..<80 {
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: 0..<actors.count, using: &random)
                let host = actors[index].host
                switch Int.random(in: 0..<12, using: &random) {
                case 0...1:
                    actors[index].state = nil
                    actors[index].host = try await world.open(actors[index].device)
                case 2...3:
                    let channels: [PushRegistration] = [
                        .apns(token: Secret("a0b1"), environment: .production), .fcm(token: Secret("f")),
                        .wns(channelURI: Secret("https://w")), .polling(interval: 60_000),
                    ]
                    guard let host, let channel = channels.randomElement(using: &random) else { continue }
                    let request = EndpointMessage.NotificationsRegister(ref: testRef(), appID: "player", displayName: "", channel: channel)
                    _ = world.core.receive(.notificationsRegister(request), on: host.channel)
                case 4:
                    let all: [EndpointMessage.Leaving.Reason] = [.suspended, .shutdown, .signedOut]
                    guard let host, let reason = all.randomElement(using: &random) else { continue }
                    _ = world.core.receive(.leaving(.init(ref: testRef(), reason: reason)), on: host.channel)
                case 5:
                    guard let host else { continue }
                    world.core.disconnected(host.channel, isSilent: true)
                    actors[index].host = nil
                case 6...7:
                    number += 1
                    let kind = Bool.random(using: &random) ? CommandHeader.Kind.launch : .message
                    // A known account: asking for it would connect.
                    let command = try await world.command(
                        from: sender,
                        to: actors[index].device,
                        number: number,
                        account: watcher.account,
                        kind: kind
                    )
                    _ = world.core.receive(
                        .commandSend(.init(ref: testRef(), command: Blob(command.encoded), again: false)),
                        on: watcher.channel
                    )
                case 8...9:
                    try await world.settle()
                    let later = Milliseconds(clamping: world.clock.now + Int64.random(in: 0...90_000, using: &random))
                    let outcomes: [WakeOutcome] = [
                        .accepted, .accepted, .gone(since: nil), .refused(until: nil), .refused(until: later), .suppressed(until: later),
                        .failed(reason: "test"),
                    ]
                    if let outcome = outcomes.randomElement(using: &random) { wakes.report(outcome) }
                case 10:
                    let kinds: [PushRegistration.Kind] = [.apns, .fcm, .wns]
                    wakes.setKinds(Set(kinds.filter { _ in Bool.random(using: &random) }))
                    wakes.setRejected(Set(kinds.filter { _ in Int.random(in: 0..<4, using: &random) == 0 }))
                    if Bool.random(using: &random) { world.core.credentialsChanged() }
                default:
                    let days = Int.random(in: 0..<20, using: &random) == 0 ? Int64(28) : 0
                    try await world.pass(days * 86_400_000 + Int64.random(in: 0...70_000, using: &random))
                }
            }
            // What is due, and what follows from that.
            for _ in 0..<3 { try await world.pass(0) }
            hear(try await watcher.receive())
            let newcomer = try await world.open(sender, role: .client)
            var fresh: [EndpointID: Presence] = [:]
            for case .endpointAdded(let event) in try await newcomer.send(.watch(.init(ref: testRef()))) {
                fresh[event.endpoint] = event.presence
            }
            try await newcomer.disconnect()
            #expect(heard == fresh, "seed \(seed), round \(round)")
            #expect(try await watcher.receive().isEmpty, "seed \(seed), round \(round)")
            reasons.formUnion(fresh.values.map { "\($0.reason) \($0.isWakeable)" })
            for index in actors.indices {
                try await actors[index].receive()
                guard let told = actors[index].state, actors[index].host != nil, fresh[actors[index].device.id]?.state == .available else {
                    continue
                }
                actors[index].host = try await world.open(actors[index].device)
                try await actors[index].receive()
                #expect(actors[index].state == told, "seed \(seed), round \(round)")
            }
            hear(try await watcher.receive())
        }
        #expect(reasons.count >= 6, "seed \(seed): \(reasons.sorted())")
    }
}
