// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol
import Testing

@testable import RelayServer

/// An account that sends more than the store can take.
@Suite(.timeLimit(.minutes(5))) struct StoreFloodAttackTests {
    /// A store that does nothing until it gets a signal.
    private func stop(_ world: CoreWorld) async -> DispatchSemaphore {
        let gate = DispatchSemaphore(value: 0)
        await withCheckedContinuation { stopped in
            world.store.base.submit(for: nil) { _ in
                stopped.resume()
                gate.wait()
            } completion: { _ in
            }
        }
        return gate
    }

    private func flood(_ session: Session, _ count: Int) throws -> Int {
        var ids = CommandIDGenerator()
        var random = SystemRandomNumberGenerator()
        for number in 0..<count {
            let id = ids.next(now: UInt64(session.world.clock.now), using: &random)
            guard session.world.core.receive(.commandAcknowledge(.init(id: id)), on: session.channel) else { return number + 1 }
        }
        return count
    }

    @Test func floodingChannelIsNotReadUntilTheStoreIsDone() async throws {
        let world = try await CoreWorld()
        let session = try await world.open(TestDevice(subject: "eve"))
        let gate = await stop(world)
        #expect(try flood(session, 1_000) == StoreQueue<StoreWork>.maximumOfChannel)
        #expect(session.peer.resumed == 0)
        gate.signal()
        try await world.settle()
        #expect(session.peer.resumed == 1)
        #expect(try flood(session, 1) == 1)
    }

    @Test func floodOfOneAccountDoesNotBlockOthers() async throws {
        let world = try await CoreWorld()
        let eve = TestDevice(subject: "eve")
        var sessions = [try await world.open(eve)]
        for _ in 0..<8 { sessions.append(try await world.open(eve, role: .client)) }
        let victim = try await world.open(TestDevice(subject: "anna"))
        let gate = await stop(world)
        var waiting = 0
        for session in sessions { waiting += try flood(session, 1_000) }
        #expect(waiting == StoreQueue<StoreWork>.maximumOfAccount + 1)
        // Another account is read.
        #expect(world.core.receive(.unwatch(.init(ref: testRef())), on: victim.channel))
        gate.signal()
        try await world.settle()
        #expect(victim.peer.take().contains { $0.isOK })
        for session in sessions { #expect(session.peer.resumed == 1) }
    }

    /// Outcomes that wait for a sender are read as they are sent, not all at once for each of its channels.
    @Test func outcomesForAReconnectingSenderDoNotFillTheStoreQueue() async throws {
        let world = try await CoreWorld()
        let (sender, target) = (TestDevice(subject: "eve"), TestDevice(subject: "eve"))
        let near = try await world.open(sender)
        try await world.open(target).disconnect()
        for number in 1...100 {
            try await near.send(try await world.command(from: sender, to: target, number: UInt64(number), life: 1_000))
        }
        world.clock.pass(2_000)
        for _ in 0..<5 {
            world.core.handleDeadlines()
            try await world.settle()
        }
        let account = near.account
        let before = world.store.submitted
        world.store.forgetMostWaiting()
        let peer = TestPeer()
        let gate = await stop(world)
        world.core.connect(try sender.hello(account, role: .client), peer: peer) { _ in }
        gate.signal()
        try await world.settle()
        #expect(peer.take().count { if case .commandStatus = $0 { true } else { false } } == 100)
        #expect(world.store.mostWaiting <= Mailboxes.outcomesAtOnce(Limits()) + 2)
        #expect(world.store.submitted - before >= 100)
    }
}
