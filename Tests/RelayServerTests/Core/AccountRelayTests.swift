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

    /// Another node may serve the account, and sends its wakes.
    @Test func wakesOfAnAccountThatIsLostAreForgotten() throws {
        var (world, near, far) = try connected()
        let channel = PushRegistration.fcm(token: Secret("token"))
        world.send(.notificationsRegister(.init(ref: testRef(), appID: "player", displayName: "", channel: channel)), on: far)
        world.settle()
        world.send(.leaving(.init(ref: testRef(), reason: .suspended)), on: far)
        world.settle()
        world.disconnect(far)
        world.settle()
        let command = try world.command(from: sender, to: target)
        world.send(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near)
        world.settle()
        #expect(world.wakes.map(\.payload.endpoint) == [target.id])
        world.input { $0.leave() }
        #expect(world.wakes.isEmpty)
    }

    @Test func anIdentityOfAnotherAccountIsRedirected() throws {
        var world = AccountWorld(of: sender)
        let other = AccountID(of: Identity(issuer: "https://issuer.example", subject: "first"))
        world.rows.tables.accounts[sender.identity] = (other, AccountIdentity(sender.identity, added: 0))
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
}
