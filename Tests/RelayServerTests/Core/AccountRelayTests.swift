// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// The account's state machine by itself.
@Suite struct AccountRelayTests {
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")

    private func connected() throws -> (AccountWorld, near: ChannelID, far: ChannelID) {
        var world = AccountWorld(of: sender)
        let (near, far) = (try world.connect(sender), try world.connect(target))
        world.settle()
        return (world, near, far)
    }

    @Test func aHelloIsAcceptedWhenItsRowsAreStored() throws {
        var world = AccountWorld(of: sender)
        let channel = try world.connect(sender)
        // Once to find out that the record is new, and again when it is verified.
        for _ in 0..<2 {
            #expect(world.channels.isEmpty)
            #expect(world.waiting.count == 1)
            world.work()
        }
        #expect(world.channels[channel]?.endpoint == sender.id)
        world.settle()
        // An unchanged endpoint is not verified again when it reconnects.
        world.disconnect(channel)
        world.settle()
        let next = try world.connect(sender)
        world.work()
        #expect(world.channels[next] != nil)

        let unstored = try world.connect(target)
        world.settle()
        #expect(world.channels[unstored] != nil)
        let failing = try world.connect(TestDevice(subject: "me"))
        while world.rejected.isEmpty { world.work(.before) }
        #expect(world.rejected[failing]?.code == .unavailable)
    }

    @Test func anIdentityOfAnotherAccountIsRedirected() throws {
        var world = AccountWorld(of: sender)
        let other = AccountID(of: Identity(issuer: "https://issuer.example", subject: "first"))
        world.rows.tables.accounts[sender.identity] = other
        let channel = try world.connect(sender)
        world.settle()
        #expect(world.redirected[channel] == other)
        #expect(world.channels.isEmpty)
    }

    @Test func commandForAReadyTargetIsOneTransaction() throws {
        var (world, near, far) = try connected()
        let command = try world.command(from: sender, to: target)
        world.send(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near)
        #expect(world.waiting.count == 1)
        #expect(world.receive(near).isEmpty)
        world.work()
        #expect(world.receive(near).map(\.okState) == [.accepted])
        #expect(world.receive(far).map(\.offered) == [command.encoded])
        #expect(world.waiting.isEmpty)
    }

    @Test(arguments: [TestStore.Fault.before, .after]) func failedSendOffersNothing(_ fault: TestStore.Fault) throws {
        var (world, near, far) = try connected()
        let command = try world.command(from: sender, to: target)
        world.send(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near)
        world.work(fault)
        let failures = world.receive(near).compactMap(\.failure)
        #expect(failures.map(\.code) == [.unavailable])
        #expect(failures.first?.mayHaveRun == true)
        #expect(world.receive(far).isEmpty)
        #expect((world.row(command) == nil) == (fault == .before))
        // The room that was kept for it is free: the same bytes find their target.
        world.send(.commandSend(.init(ref: testRef(), command: Blob(command.encoded), again: true)), on: near)
        world.settle()
        #expect(world.receive(near).contains { $0.isOK })
        _ = world.receive(far)
        #expect(world.violations.isEmpty)
    }

    @Test func accountWithoutChannelsBecomesIdle() throws {
        var (world, near, far) = try connected()
        let command = try world.command(from: sender, to: target)
        world.disconnect(far)
        world.send(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near)
        world.disconnect(near)
        // It is being stored, so offers that come meanwhile must not overtake it.
        #expect(!world.relay.isIdle)
        world.settle()
        #expect(world.relay.isIdle)
        #expect(world.relay.presences.isEmpty)
        #expect(world.row(command)?.state == .stored)
    }

    @Test func messageFromAClosedChannelIsIgnored() throws {
        var (world, near, far) = try connected()
        let channel = try #require(world.channels[near])
        world.disconnect(near)
        world.settle()
        let command = try world.command(from: sender, to: target)
        let message = CheckedMessage(
            .commandSend(.init(ref: testRef(), command: Blob(command.encoded))),
            on: channel,
            rules: world.relay.rules
        )
        world.input { $0.receive(message, on: channel) }
        #expect(world.waiting.isEmpty)
        #expect(world.receive(far).allSatisfy { $0.offered == nil })
    }

    /// Transactions fail, channels break and the process ends between any two of them: every accepted command ends once, and none is
    /// overtaken.
    @Test(arguments: 0..<12 as Range<UInt64>) func everyAcceptedCommandEndsOnce(seed: UInt64) throws {
        var walk = try Walk(seed: seed)
        try walk.run(steps: 400)
        try walk.drain()
        #expect(walk.world.violations.isEmpty, "seed \(seed)")
        #expect(walk.overtaken == 0, "seed \(seed)")
        #expect(walk.accepted.count > 10)
        #expect(Set(walk.outcomes.keys) == walk.accepted, "seed \(seed)")
        for outcomes in walk.outcomes.values { #expect(outcomes.count == 1, "seed \(seed)") }
    }

    /// A sender and a target that behave as their SDKs do.
    private struct Walk {
        var world: AccountWorld
        var random: SeededGenerator
        let sender = TestDevice(subject: "me")
        let target = TestDevice(subject: "me")
        var near = ChannelID(0)
        var far = ChannelID(0)
        /// Not accepted yet; the first one is on its way.
        var unsent: [SealedCommand] = []
        var sent: [CommandID: SealedCommand] = [:]
        var accepted: Set<CommandID> = []
        var outcomes: [CommandID: Set<RelayMessage.CommandStatus.Status>] = [:]
        var pending: [SealedCommand] = []
        var results: [CommandID: EndpointMessage] = [:]
        var unsettled: [CommandID] = []
        var number: UInt64 = 0
        var highest: UInt64 = 0
        var overtaken = 0

        init(seed: UInt64) throws {
            random = SeededGenerator(seed: seed)
            world = AccountWorld(of: sender)
            try reconnect()
        }

        mutating func run(steps: Int) throws {
            for _ in 0..<steps {
                switch Int.random(in: 0..<40, using: &random) {
                case 0..<6: try submit()
                case 6..<11: try handle()
                case 11: world.work(.before)
                case 12: world.work(.after)
                case 13:
                    world.disconnect(Bool.random(using: &random) ? near : far)
                case 14: if Int.random(in: 0..<4, using: &random) == 0 { world.crash(commits: Bool.random(using: &random)) }
                default: world.work()
                }
                try listen()
            }
        }

        mutating func drain() throws {
            for _ in 0..<400 where !(unsent.isEmpty && unsettled.isEmpty && pending.isEmpty && outcomes.count == accepted.count) {
                world.disconnect(near)
                world.disconnect(far)
                try reconnect()
                for _ in 0..<6 {
                    world.settle()
                    try listen()
                    while !pending.isEmpty { try handle() }
                }
            }
        }

        private mutating func submit() throws {
            number += 1
            unsent.append(try world.command(from: sender, to: target, number: number))
            if unsent.count == 1 { transmit() }
        }

        private mutating func transmit() {
            guard let command = unsent.first else { return }
            let again = sent.updateValue(command, forKey: command.header.id) != nil
            let ref = Int64(command.header.number)
            world.send(.commandSend(.init(ref: testRef(ref), command: Blob(command.encoded), again: again)), on: near)
        }

        private mutating func handle() throws {
            guard !pending.isEmpty else { return }
            let command = pending.removeFirst()
            let result = try world.result(of: command, by: target, ref: Int64(command.header.number))
            results[command.header.id] = result
            unsettled.append(command.header.id)
            world.send(result, on: far)
        }

        private mutating func reconnect() throws {
            if world.channels[near] == nil {
                near = try open(sender)
                transmit()
            }
            if world.channels[far] == nil {
                far = try open(target)
                for id in unsettled { if let result = results[id] { world.send(result, on: far) } }
            }
        }

        private mutating func open(_ device: TestDevice) throws -> ChannelID {
            let channel = try world.connect(device)
            while world.channels[channel] == nil, world.rejected[channel] == nil { world.work() }
            return channel
        }

        private mutating func listen() throws {
            for message in world.receive(near) {
                switch message {
                case .ok: took(unsent.first)
                case .failure: transmit()
                case .commandStatus(let status):
                    if case .step = status.status { continue }
                    outcomes[status.id, default: []].insert(status.status)
                default: break
                }
            }
            for message in world.receive(far) {
                switch message {
                case .command(let offer): try take(SealedCommand(decoding: offer.command.bytes, limits: Limits()))
                case .commandSettled(let settled): unsettled.removeAll { $0 == settled.id }
                default: break
                }
            }
            try reconnect()
        }

        private mutating func took(_ command: SealedCommand?) {
            guard let command else { return }
            accepted.insert(command.header.id)
            unsent.removeFirst()
            transmit()
        }

        private mutating func take(_ command: SealedCommand) {
            let id = command.header.id
            if let result = results[id] { return world.send(result, on: far) }
            if !pending.contains(command) {
                if command.header.number <= highest { overtaken += 1 }
                highest = command.header.number
                pending.append(command)
            }
            world.send(.commandReceived(.init(sender: sender.id, id: id)), on: far)
        }
    }
}
