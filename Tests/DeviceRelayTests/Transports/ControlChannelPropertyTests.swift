// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import RelayProtocol
import RelayTesting
import Testing

/// The machine against everything that relay, network, person and clock can do, in any order.
@Suite struct ControlChannelPropertyTests {
    typealias Action = EndpointChannelStateMachine.Action

    /// The state of the outside world, derived from the actions.
    struct World {
        var pending: Set<RequestRef> = []
        var dialled: Int?
        var isConnected = false
        var answered: Set<RequestRef> = []

        mutating func apply(_ actions: [Action], seed: UInt64) {
            for action in actions {
                switch action {
                case .dial(let attempt, _):
                    #expect(dialled == nil, "two connections at once, seed \(seed)")
                    dialled = attempt
                case .close(let attempt, _, let reason):
                    #expect(dialled == attempt, "closed what is not there, seed \(seed)")
                    #expect(reason.utf8.count <= 123, "seed \(seed)")
                    dialled = nil
                case .connected:
                    #expect(!isConnected, "seed \(seed)")
                    isConnected = true
                case .disconnected:
                    isConnected = false
                    #expect(pending.isEmpty, "a request got no answer, seed \(seed)")
                case .answer(let ref, _):
                    #expect(pending.remove(ref) != nil, "an answer to nothing, or a second one, seed \(seed)")
                    answered.insert(ref)
                case .send(let attempt, _), .ping(let attempt), .makeHello(let attempt, _, _):
                    #expect(dialled == attempt, "spoke to nobody, seed \(seed)")
                case .event, .roomAgain:
                    #expect(isConnected, "seed \(seed)")
                case .requestToken, .invalidateToken: break
                }
            }
        }
    }

    @Test(arguments: UInt64(0)..<300) func invariantsHoldForRandomEvents(_ seed: UInt64) throws {
        var bench = MachineBench(role: seed % 4 == 0 ? .client : .host, seed: seed)
        var chance = SeededGenerator(seed: seed &+ 1_000)
        var world = World()
        var now: Int64 = 0
        var refs: [RequestRef] = []
        world.apply(bench.machine.start(now: now), seed: seed)
        for _ in 0..<400 {
            now += Int64.random(in: 0...(chance.oneIn(10) ? 200_000 : 2_000), using: &chance)
            // Mostly the attempt of now, sometimes an old one.
            let attempt = bench.machine.attempt - (chance.oneIn(8) ? 1 : 0)
            let isCurrent = attempt == bench.machine.attempt
            let actions: [Action]
            switch Int.random(in: 0..<20, using: &chance) {
            case 0: actions = bench.machine.start(now: now)
            case 1: actions = chance.oneIn(3) ? bench.machine.leave(.suspended, now: now) : []
            case 2, 3: actions = bench.machine.tokenReady(attempt: attempt, MachineBench.token, now: now)
            case 4: actions = bench.machine.tokenFailed(attempt: attempt, isTransient: !chance.oneIn(4), now: now, random: &bench.random)
            case 5, 6: actions = bench.machine.opened(attempt: attempt, now: now)
            case 7 where isCurrent && world.dialled == attempt && bench.machine.status == .connecting:
                actions = bench.machine.dialFailed(attempt: attempt, .timedOut, now: now, random: &bench.random)
                if !actions.isEmpty { world.dialled = nil }
            case 8 where world.dialled == attempt && chance.oneIn(3):
                world.dialled = nil
                actions = bench.machine.closed(attempt: attempt, code: 1006, now: now, random: &bench.random)
            case 9: actions = try bench.receive(.challenge(MachineBench.challenge), attempt: attempt, now: now)
            case 10: actions = bench.machine.helloReady(attempt: attempt, MachineBench.hello, now: now, random: &bench.random)
            case 11: actions = try bench.receive(.welcome(.sample), attempt: attempt, now: now)
            case 12: actions = bench.machine.networkChanged(now: now, random: &bench.random)
            case 13:
                if let sent = try? bench.machine.request(now: now, { .watch(.init(ref: $0)) }) {
                    #expect(world.isConnected, "seed \(seed)")
                    #expect(world.pending.insert(sent.ref).inserted && !world.answered.contains(sent.ref), "a ref twice, seed \(seed)")
                    refs.append(sent.ref)
                    actions = sent.actions
                } else {
                    actions = []
                }
            case 14:
                guard let ref = refs.randomElement(using: &chance) else { continue }
                actions = try bench.receive(.ok(.init(ref: ref)), attempt: attempt, now: now)
            case 15:
                actions = try bench.receive(Self.messages.randomElement(using: &chance) ?? .replaced(.init()), attempt: attempt, now: now)
            case 16:
                bench.machine.receivedBytes(attempt: attempt, now: now)
                actions = []
            case 17: actions = bench.machine.written(attempt: attempt, bytes: Int.random(in: 0...100_000, using: &chance))
            default: actions = bench.pass(now)
            }
            world.apply(actions, seed: seed)
            try check(bench, world, now: now, seed: seed)
        }
    }

    private func check(_ bench: MachineBench, _ world: World, now: Int64, seed: UInt64) throws {
        switch bench.machine.status {
        case .stopped:
            #expect(world.dialled == nil && bench.machine.deadline == nil, "seed \(seed)")
        case .waiting(let until):
            #expect(world.dialled == nil && until <= now + 3_600_000 + 60_000, "seed \(seed)")
        case .connecting: #expect(!world.isConnected, "seed \(seed)")
        case .connected: #expect(world.isConnected && world.dialled == bench.machine.attempt, "seed \(seed)")
        }
    }

    static let messages: [RelayMessage] = [
        .authExpiring(.init(expires: 1)), .authInvalidated(.init(code: .tokenExpired, message: "")),
        .restarting(.init(after: 1_000, spread: 1_000)), .replaced(.init()), .enumerationCompleted(.init()), .enumerationCompleted(.init()),
        .rejected(.init(code: .tokenExpired, message: "", retry: true)),
        .rejected(.init(code: .endpointRevoked, message: "", retry: false)),
    ]
}
