// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Senders and a target behave as their machines do, while channels break, the relay restarts and the store fails: every
/// accepted command ends once, and no lane is overtaken.
@Suite struct CommandSimulationTests {
    private final class Sender {
        let device = TestDevice(subject: "me")
        var session: Session
        /// Of each lane those not yet answered by `ok`; only the first is on its way.
        var waiting: [String: [SealedCommand]] = [:]
        var accepted: [CommandID: SealedCommand] = [:]
        var outcomes: [CommandID: Set<RelayMessage.CommandStatus.Status>] = [:]
        var numbers: [String: UInt64] = [:]
        var refs: [RequestRef: SealedCommand] = [:]
        var sent: Set<CommandID> = []

        init(_ world: CoreWorld) async throws { self.session = try await world.open(device) }
    }

    private final class Target {
        let device = TestDevice(subject: "me")
        var session: Session
        var highest: [CommandLane: UInt64] = [:]
        var handled: [CommandKey: EndpointMessage] = [:]
        var unsettled: [CommandKey] = []
        var pending: [SealedCommand] = []
        var overtaken = 0

        init(_ world: CoreWorld) async throws { self.session = try await world.open(device) }
    }

    private final class Simulation {
        let world: CoreWorld
        let senders: [Sender]
        let target: Target
        var ref: Int64 = 0

        init(_ store: (any RelayStore)? = nil) async throws {
            self.world = try await CoreWorld(store: store)
            self.senders = [try await Sender(world), try await Sender(world)]
            self.target = try await Target(world)
        }

        /// Several faults may be waiting, and strike here.
        func restart() async throws {
            for _ in 0..<20 {
                if (try? await world.restart()) != nil { return }
            }
            try await world.restart()
        }

        private func open(_ device: TestDevice) async throws -> Session {
            for _ in 0..<20 {
                if let session = try? await world.open(device) { return session }
            }
            return try await world.open(device)
        }

        func transmit(_ command: SealedCommand, by sender: Sender) {
            ref += 1
            sender.refs[testRef(ref)] = command
            let again = !sender.sent.insert(command.header.id).inserted
            let message = EndpointMessage.commandSend(.init(ref: testRef(ref), command: Blob(command.encoded), again: again))
            _ = world.core.receive(message, on: sender.session.channel)
        }

        func submit(by sender: Sender, app: String, life: Int64) async throws {
            let number = (sender.numbers[app] ?? 0) + 1
            sender.numbers[app] = number
            let account = sender.session.account
            let command = try await world.command(
                from: sender.device,
                to: target.device,
                number: number,
                life: life,
                app: app,
                account: account
            )
            sender.waiting[app, default: []].append(command)
            if sender.waiting[app]?.count == 1 { transmit(command, by: sender) }
        }

        func reconnect(_ sender: Sender) async throws {
            world.core.disconnected(sender.session.channel, isSilent: false)
            sender.session = try await open(sender.device)
            sender.refs = [:]
            for app in sender.waiting.keys.sorted() {
                for command in sender.accepted.values.sorted(by: { $0.header.number < $1.header.number })
                where command.header.targetApp == app && sender.outcomes[command.header.id] == nil {
                    transmit(command, by: sender)
                }
                if let command = sender.waiting[app]?.first { transmit(command, by: sender) }
            }
        }

        func reconnectTarget() async throws {
            world.core.disconnected(target.session.channel, isSilent: false)
            target.session = try await open(target.device)
            for key in target.unsettled {
                if let message = target.handled[key] { _ = world.core.receive(message, on: target.session.channel) }
            }
        }

        func listen() async throws {
            try await world.settle()
            for sender in senders {
                for message in sender.session.peer.take() {
                    switch message {
                    case .ok(let ok): accepted(ok.ref, by: sender)
                    case .failure(let failure):
                        guard failure.code == .unavailable else { throw TestError("\(failure.code)") }
                    case .commandStatus(let status):
                        if case .step = status.status { continue }
                        sender.outcomes[status.id, default: []].insert(status.status)
                    default: break
                    }
                }
                if sender.session.peer.closeCode != nil { try await reconnect(sender) }
            }
            for message in target.session.peer.take() {
                switch message {
                case .command(let offer): try take(SealedCommand(decoding: offer.command.bytes))
                case .commandSettled(let settled): target.unsettled.removeAll { $0 == CommandKey(sender: settled.sender, id: settled.id) }
                default: break
                }
            }
            if target.session.peer.closeCode != nil { try await reconnectTarget() }
        }

        private func accepted(_ ref: RequestRef, by sender: Sender) {
            guard let command = sender.refs.removeValue(forKey: ref) else { return }
            sender.accepted[command.header.id] = command
            let app = command.header.targetApp
            guard sender.waiting[app]?.first == command else { return }
            sender.waiting[app]?.removeFirst()
            if let next = sender.waiting[app]?.first { transmit(next, by: sender) }
        }

        private func take(_ command: SealedCommand) throws {
            let key = command.descriptor.key
            if let result = target.handled[key] { return _ = world.core.receive(result, on: target.session.channel) }
            if target.pending.contains(command) { return received(command) }
            // A lower number than one taken before was overtaken.
            if command.header.number <= target.highest[command.header.lane] ?? 0 { target.overtaken += 1 }
            target.highest[command.header.lane] = command.header.number
            target.pending.append(command)
            received(command)
        }

        private func received(_ command: SealedCommand) {
            _ = world.core.receive(
                .commandReceived(.init(sender: command.header.sender, id: command.header.id)),
                on: target.session.channel
            )
        }

        func handleOne() throws {
            guard !target.pending.isEmpty else { return }
            let command = target.pending.removeFirst()
            let receipt = try world.receipt(of: command, by: target.device)
            ref += 1
            let message = EndpointMessage.commandResult(
                .init(ref: testRef(ref), sender: command.header.sender, id: command.header.id, receipt: receipt)
            )
            target.handled[command.descriptor.key] = message
            target.unsettled.append(command.descriptor.key)
            _ = world.core.receive(message, on: target.session.channel)
        }
    }

    /// Over a database, and without one.
    @Test(arguments: 1...Sweep.count(6 as UInt64, full: 100)) func everyAcceptedCommandEndsOnce(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let simulation = try await Simulation(seed % 3 == 0 ? MemoryStore(isCaching: seed == 3) : nil)
        let (world, senders) = (simulation.world, simulation.senders)
        for _ in 0..<150 {
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0..<40, using: &random) {
                case 0..<16:
                    let sender = senders[Int.random(in: 0..<2, using: &random)]
                    let app = ["a", "b"].randomElement(using: &random) ?? "a"
                    try await simulation.submit(by: sender, app: app, life: 600_000)
                case 16..<30: try simulation.handleOne()
                case 30..<32: try await simulation.reconnect(senders[Int.random(in: 0..<2, using: &random)])
                case 32..<34: try await simulation.reconnectTarget()
                case 34:
                    try await simulation.restart()
                    for sender in senders { try await simulation.reconnect(sender) }
                    try await simulation.reconnectTarget()
                case 35..<38:
                    world.store.fail(after: Int.random(in: 0..<6, using: &random), random.next() % 2 == 0 ? .before : .after)
                default: world.core.handleDeadlines()
                }
            }
            try await simulation.listen()
        }
        for _ in 0..<600 {
            for sender in senders { try await simulation.reconnect(sender) }
            try await simulation.reconnectTarget()
            try await simulation.listen()
            for _ in 0..<8 { try simulation.handleOne() }
            try await simulation.listen()
            let isDone = senders.allSatisfy { sender in
                sender.waiting.values.allSatisfy { $0.isEmpty } && sender.outcomes.count == sender.accepted.count
            }
            if isDone, simulation.target.unsettled.isEmpty { break }
        }
        #expect(simulation.target.overtaken == 0, "seed \(seed)")
        #expect(simulation.target.unsettled.isEmpty, "seed \(seed)")
        for sender in senders {
            #expect(sender.accepted.count > 30)
            let isIdle = sender.waiting.values.allSatisfy { $0.isEmpty }
            #expect(isIdle, "seed \(seed)")
            #expect(Set(sender.outcomes.keys) == Set(sender.accepted.keys), "seed \(seed)")
            for outcomes in sender.outcomes.values { #expect(outcomes.count == 1, "seed \(seed)") }
        }
    }
}
