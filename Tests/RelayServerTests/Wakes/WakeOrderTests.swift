// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Wakes and connections at the same time.
@Suite struct WakeOrderTests {
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")

    enum Cause: CaseIterable {
        case command, tunnel, dueWake
    }

    /// The wake is decided while the endpoint's connection is being stored. If it counted, the endpoint would sleep through the next minutes
    /// when it disconnects.
    @Test(arguments: Cause.allCases) func wakeOfAnEndpointThatIsConnectingDoesNotCount(_ cause: Cause) throws {
        var world = AccountWorld(of: sender)
        let (near, far) = (try world.connect(sender), try world.connect(target))
        world.settle()
        let channel = PushRegistration.fcm(token: Secret("token"))
        world.send(.notificationsRegister(.init(ref: testRef(), appID: "player", displayName: "", channel: channel)), on: far)
        world.disconnect(far)
        world.settle()
        func send() throws -> EndpointMessage {
            .commandSend(.init(ref: testRef(), command: Blob(try world.command(from: sender, to: target).encoded)))
        }
        if cause == .dueWake {
            world.send(try send(), on: near)
            world.settle()
            #expect(world.rows.tables.pushes[target.id]?.schedule.last != nil)
            world.now += 1_200_000
        }
        try world.connect(target)
        let id = target.id
        switch cause {
        case .command: world.send(try send(), on: near)
        case .tunnel: world.send(.tunnelOpen(.init(ref: testRef(), target: id, timeout: 10_000)), on: near)
        case .dueWake: world.input { $0.handlePush(of: id) }
        }
        #expect(world.waiting.count == 2)
        world.settle()
        let push = try #require(world.rows.tables.pushes[id])
        #expect(push.schedule == WakeSchedule())
    }

    @Test func channelLeavesOnce() throws {
        var world = AccountWorld(of: sender)
        let (near, far) = (try world.connect(sender), try world.connect(target))
        world.settle()
        world.send(.watch(.init(ref: testRef())), on: near)
        world.settle()
        _ = (world.receive(near), world.receive(far))
        for _ in 0..<100 { world.send(.leaving(.init(ref: testRef(), reason: .suspended)), on: far) }
        #expect(world.waiting.count == 1)
        world.settle()
        let answers = world.receive(far)
        #expect(answers.filter(\.isOK).count == 1)
        #expect(answers.filter { $0.failure?.code == .unavailable }.count == 99)
        #expect(world.receive(near).count == 1)
        // Now it is stored, so there is nothing to do.
        world.send(.leaving(.init(ref: testRef(), reason: .suspended)), on: far)
        #expect(world.waiting.isEmpty)
        #expect(world.receive(far).map(\.isOK) == [true])
        #expect(world.receive(near).isEmpty)
    }

    @Test func leavingThatIsNotStoredIsNotConfirmed() throws {
        var world = AccountWorld(of: sender)
        let far = try world.connect(target)
        world.settle()
        _ = world.receive(far)
        for _ in 0..<2 { world.send(.leaving(.init(ref: testRef(), reason: .suspended)), on: far) }
        world.work(.before)
        world.settle()
        #expect(world.receive(far).map(\.failure?.code) == [.unavailable, .unavailable])
    }

    /// Something comes while the endpoint's leaving is being stored. It is too late for an offer, and must not be too early for a wake.
    @Test(arguments: Cause.allCases) func somethingForAnEndpointThatIsLeavingWakesIt(_ cause: Cause) throws {
        var world = AccountWorld(of: sender)
        let (near, far) = (try world.connect(sender), try world.connect(target))
        world.settle()
        let channel = PushRegistration.fcm(token: Secret("token"))
        world.send(.notificationsRegister(.init(ref: testRef(), appID: "player", displayName: "", channel: channel)), on: far)
        world.settle()
        let command = EndpointMessage.commandSend(.init(ref: testRef(), command: Blob(try world.command(from: sender, to: target).encoded)))
        let id = target.id
        if cause == .dueWake {
            world.send(command, on: near)
            world.settle()
        }
        world.send(.leaving(.init(ref: testRef(), reason: .suspended)), on: far)
        switch cause {
        case .command: world.send(command, on: near)
        case .tunnel: world.send(.tunnelOpen(.init(ref: testRef(), target: id, timeout: 10_000)), on: near)
        case .dueWake: world.input { $0.handlePush(of: id) }
        }
        #expect(world.waiting.count == 2)
        world.settle()
        world.disconnect(far)
        world.settle()
        let push = try #require(world.rows.tables.pushes[id])
        // A tunnel does not wait for long, so it wakes at once.
        if cause == .tunnel {
            #expect(push.schedule.last?.time == world.now)
        } else {
            #expect(push.due == world.now + WakeableHosts.silencePeriod)
        }
    }
}
