// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import RelayProtocol
import RelayTesting

/// A machine with a random generator of its own, and short ways to the states that tests begin with.
struct MachineBench {
    var machine: EndpointChannelStateMachine
    var random: SeededGenerator

    static let relay = RelayID(P256SigningKey.sampleRelay.publicKey)
    static let token = Secret("token")
    static let challenge = RelayMessage.Challenge(
        nonce: Blob(Array(repeating: 7, count: 32)),
        relay: relay,
        time: 5_000,
        versions: [1, 2],
        features: []
    )
    static let hello = EndpointMessage.Hello(
        version: 1,
        token: token,
        record: Blob([1]),
        origin: "https://relay.example",
        signature: Blob(Array(repeating: 1, count: 64)),
        role: .host,
        instance: Blob(Array(repeating: 2, count: 16)),
        features: []
    )

    init(role: EndpointMessage.Hello.Role = .host, relay: RelayID? = Self.relay, seed: UInt64 = 1) {
        machine = EndpointChannelStateMachine(role: role, relay: relay)
        random = SeededGenerator(seed: seed)
    }

    mutating func receive(_ message: RelayMessage, attempt: Int? = nil, now: Int64) throws -> [EndpointChannelStateMachine.Action] {
        machine.received(attempt: attempt ?? machine.attempt, try message.encode(), now: now, random: &random)
    }

    mutating func receive(text: String, now: Int64) -> [EndpointChannelStateMachine.Action] {
        machine.received(attempt: machine.attempt, ByteBuffer(string: text), now: now, random: &random)
    }

    mutating func pass(_ now: Int64) -> [EndpointChannelStateMachine.Action] { machine.handleDeadlines(now: now, random: &random) }

    /// From `authorizing` on.
    mutating func completeHello(now: Int64, welcome: RelayMessage.Welcome = .sample) throws {
        _ = machine.tokenReady(attempt: machine.attempt, Self.token, now: now)
        _ = machine.opened(attempt: machine.attempt, now: now)
        _ = try receive(.challenge(Self.challenge), now: now)
        _ = machine.helloReady(attempt: machine.attempt, Self.hello, now: now, random: &random)
        _ = try receive(.welcome(welcome), now: now)
    }

    static func connected(role: EndpointMessage.Hello.Role = .host, welcome: RelayMessage.Welcome = .sample) throws -> MachineBench {
        var bench = MachineBench(role: role)
        _ = bench.machine.start(now: 0)
        try bench.completeHello(now: 0, welcome: welcome)
        return bench
    }

    mutating func watch(now: Int64 = 0) throws -> RequestRef {
        try machine.request(now: now) { .watch(.init(ref: $0)) }.ref
    }

    /// Until when it waits; `nil` if it does not.
    var waitingUntil: Int64? {
        if case .waiting(let until) = machine.status { return until }
        return nil
    }
}

extension RelayMessage.Welcome {
    static let sample = RelayMessage.Welcome(limits: Limits(), intervals: .init(), urls: [], features: [])
}

extension EndpointChannelStateMachine.Action {
    /// The message that is sent.
    var message: EndpointMessage? {
        guard case .send(_, let frame) = self, case .message(let message) = try? EndpointMessage.decode(from: frame, limits: Limits())
        else {
            return nil
        }
        return message
    }

    var dialled: Int? {
        if case .dial(let attempt, _) = self { return attempt }
        return nil
    }

    var answered: RequestRef? {
        if case .answer(let ref, _) = self { return ref }
        return nil
    }
}
