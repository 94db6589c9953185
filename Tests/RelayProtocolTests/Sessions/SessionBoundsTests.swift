// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// Bounds against a peer that accepts no responses or sends too many requests.
@Suite struct SessionBoundsTests {
    private static func withAnswer(at seconds: Int64 = 0) throws -> SessionSide {
        var side = SessionSide.withOpenConnection()
        side.now = .seconds(seconds)
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        #expect(try side.respond(1, sessionBytes(100_000)).0 == .waiting)
        return side
    }

    /// Advances the time second by second, with a ping from the peer at each.
    private static func end(_ side: inout SessionSide, from: Int64, to: Int64) -> SessionError? {
        for second in from...to {
            side.now = .seconds(second)
            side.receive(.ping(1))
            if let rule = side.time(second).brokenRule { return rule }
        }
        return nil
    }

    @Test func announcedResponseWithoutGrantEndsTheSession() throws {
        var side = try Self.withAnswer(at: 100)
        #expect(side.machine.nextDeadline.map { $0 <= .seconds(130) } == true)
        #expect(Self.end(&side, from: 101, to: 129) == nil)
        #expect(Self.end(&side, from: 130, to: 130) == .answersStalled)
    }

    @Test func grantExtendsTheDeadlineOfOtherResponses() throws {
        var side = try Self.withAnswer()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 2)
        _ = try side.respond(2, sessionBytes(40_000))
        #expect(Self.end(&side, from: 1, to: 20) == nil)
        side.receive(.grant(.response), 1, 1)
        #expect(Self.end(&side, from: 21, to: 49) == nil)
        #expect(Self.end(&side, from: 50, to: 50) == .answersStalled)
    }

    @Test func slowResponseExtendsTheDeadlineOfOthers() throws {
        var side = try Self.withAnswer()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 2)
        _ = try side.respond(2, sessionBytes(40_000))
        side.receive(.grant(.response), 1, 1)
        // 100,000 bytes at a little more than 4 KiB/s.
        for second: Int64 in 1...20 {
            #expect(Self.end(&side, from: second, to: second) == nil)
            side.run { _ = $0.nextData(maximumBytes: 5_000, at: .seconds(second), into: &$1) }
        }
        #expect(!side.machine.hasData)
        #expect(Self.end(&side, from: 21, to: 49) == nil)
        #expect(Self.end(&side, from: 50, to: 50) == .answersStalled)
    }

    @Test func trickledResponseDoesNotExtendTheDeadlineForever() throws {
        var side = try Self.withAnswer()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 2)
        _ = try side.respond(2, sessionBytes(40_000))
        side.receive(.grant(.response), 1, 1)
        var end: SessionError?
        for second: Int64 in 1...60 where end == nil {
            end = Self.end(&side, from: second, to: second)
            side.run { _ = $0.nextData(maximumBytes: 100, at: .seconds(second), into: &$1) }
        }
        #expect(end == .answersStalled)
    }

    @Test func cancelledResponseDoesNotEndTheSession() throws {
        var side = try Self.withAnswer()
        side.receive(.cancel, 1, 1)
        #expect(Self.end(&side, from: 1, to: 50) == nil)
        // A request of this side may wait as long as its app permits.
        _ = try side.request(sessionBytes(100_000))
        #expect(Self.end(&side, from: 51, to: 100) == nil)
    }

    @Test func unansweredProbeEndsTheSession() {
        var silent = SessionSide.withOpenConnection()
        silent.run { $0.probe(at: .seconds(10), into: &$1) }
        #expect(silent.machine.nextDeadline == .seconds(12))
        #expect(silent.time(11).brokenRule == nil)
        #expect(silent.time(12).brokenRule == .timedOut)

        var alive = SessionSide.withOpenConnection()
        alive.run { $0.probe(at: .seconds(10), into: &$1) }
        alive.now = .seconds(11)
        alive.receive(.pong(1))
        #expect(alive.time(12).brokenRule == nil)
        #expect(alive.machine.nextDeadline.map { $0 > .seconds(12) } == true)
    }

    @Test func requestLimitCoversAllConnections() throws {
        var limits = Limits()
        limits[.requestsPerSession] = 4
        var side = SessionSide(limits: limits)
        for id: UInt32 in [1, 3, 5] {
            side.receive(.open(SessionOpening(serviceName: "echo")), id)
            side.run { _ = $0.accept(SessionConnectionID(id), at: .zero, into: &$1) }
        }
        for (id, number): (UInt32, UInt32) in [(1, 1), (1, 2), (3, 1), (5, 1)] {
            #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), id, number).end == nil)
        }
        // An answered request makes room, and so does a closed connection.
        _ = try side.respond(1, sessionBytes(1))
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 3, 2).end == nil)
        side.receive(.close(SessionClosure(.completed)), 5)
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 3, 3).end == nil)
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 3).brokenRule == .tooManyRequests)
    }

    @Test func ownRequestsAreLimitedPerSession() throws {
        var limits = Limits()
        limits[.requestsPerSession] = 2
        for (outgoing, incoming) in [(limits, Limits()), (Limits(), limits)] {
            var side = SessionSide.withOpenConnection(limits: outgoing, peerLimits: incoming)
            let first = try side.request(sessionBytes(1)).0
            _ = try side.request(sessionBytes(1))
            #expect(throws: SessionSendError.limitExceeded(LimitExceeded(limit: .requestsPerSession, allowed: 2, requested: 3))) {
                try side.request(sessionBytes(1))
            }
            side.receive(.response(.inline(sessionBytes(1))), 1, first.number)
            _ = try side.request(sessionBytes(1))
        }
    }
}
