// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct SessionMovingTests {
    // MARK: Correct sides

    @Test(arguments: 0..<Sweep.count(60 as UInt64, full: 2_000)) func everyMessageArrivesOnceAndInOrder(seed: UInt64) {
        var simulation = MovingSimulation(seed: seed)
        simulation.openConnection(Int(seed % 2))
        for _ in 0..<2_000 { simulation.step() }
        simulation.settle()
    }

    @Test func simulationMovesOften() {
        var (sent, moves) = (0, 0)
        for seed: UInt64 in 10_000..<10_006 {
            var simulation = MovingSimulation(seed: seed)
            simulation.openConnection(0)
            for _ in 0..<2_000 { simulation.step() }
            simulation.settle()
            (sent, moves) = (sent + simulation.sent, moves + simulation.moves)
        }
        #expect(sent > 500 && moves > 60)
    }

    /// A conversation with small and large messages both ways, which breaks after the given number of bytes.
    private static func conversation(breaksAfter: Int?) -> MovingSimulation {
        var simulation = MovingSimulation(seed: UInt64(breaksAfter ?? 0))
        simulation.breaksAfter = breaksAfter.map { simulation.arrivedBytes + $0 }
        for side in 0...1 { simulation.openConnection(side) }
        for _ in 0..<60 where simulation.sent < 12 {
            for side in 0...1 {
                if simulation.sent < 12, !simulation.open[side].isEmpty { simulation.ask(side, bytes: simulation.sent == 6 ? 40_000 : 20) }
            }
            simulation.round()
        }
        simulation.settle()
        return simulation
    }

    @Test func aBreakAtAnyByteLosesNothing() {
        let whole = Self.conversation(breaksAfter: nil)
        #expect(whole.sent == 12 && whole.moves == 0)
        // The content of the large message is alike at all of its bytes.
        let count = whole.arrivedBytes
        let places = Array(0..<900) + Array(stride(from: 900, to: count - 700, by: 997)) + Array((count - 700)..<count)
        for place in places {
            let simulation = Self.conversation(breaksAfter: place)
            #expect(simulation.sent == 12)
        }
    }

    @Test func bothSidesNeedTheFeature() {
        for offers in [(SessionStateMachine.MoveOffer.none, SessionStateMachine.MoveOffer.acceptor), (.opener(Self.id), .none)] {
            var client = Side(SessionStateMachine(role: .client, offer: offers.0))
            var server = Side(SessionStateMachine(role: .server, offer: offers.1))
            client.receive(server.start())
            server.receive(client.start())
            #expect(client.machine.id == nil && server.machine.id == nil)
            #expect(client.machine.beginMove() == nil)
            #expect(client.run { $0.streamEnded(at: .zero, into: &$1) } == [.ended(.connectionLost)])
            #expect(server.receive([SessionFrame(.ack(0))]).brokenRule == .unexpectedFrame)
        }
    }

    @Test func framesBeforeTheSettingsOfAnOlderPeerAreSent() throws {
        var client = Side(SessionStateMachine(role: .client, offer: .opener(Self.id)))
        _ = client.start()
        let opening = SessionOpening(serviceName: String(repeating: "s", count: 4_000))
        var opens = 0
        for _ in 0..<200 {
            opens += client.run { machine, actions in _ = try? machine.openConnection(opening, into: &actions) }.sentFrames.count
        }
        #expect(opens < 200)
        opens += client.receive([SessionFrame(.settings(SessionSettings()))]).sentFrames.count
        #expect(opens == 200)
    }

    // MARK: One side by hand

    private static let id: SessionID = {
        var random = SeededGenerator(seed: 16)
        return SessionID(using: &random)
    }()

    /// One side under test.
    private struct Side {
        var machine: SessionStateMachine
        var now = Duration.zero

        init(_ machine: SessionStateMachine) { self.machine = machine }

        mutating func start() -> [SessionFrame] {
            let now = now
            return run { $0.start(at: now, into: &$1) }.sentFrames
        }

        @discardableResult
        mutating func run(_ body: (inout SessionStateMachine, inout [SessionAction]) -> Void) -> [SessionAction] {
            var actions: [SessionAction] = []
            body(&machine, &actions)
            return actions
        }

        @discardableResult
        mutating func receive(_ frames: [SessionFrame]) -> [SessionAction] {
            let now = now
            return run { machine, actions in for frame in frames { machine.receive(frame, at: now, into: &actions) } }
        }

        @discardableResult
        mutating func receive(_ payload: SessionFrame.Payload, _ connection: UInt32 = 0, _ number: UInt32 = 0) -> [SessionAction] {
            receive([SessionFrame(payload, connection: SessionConnectionID(connection), number: number)])
        }

        mutating func pass(_ time: Duration) -> [SessionAction] {
            now += time
            let now = now
            return run { $0.handleDeadlines(at: now, into: &$1) }
        }

        mutating func lose() -> [SessionAction] {
            let now = now
            return run { $0.streamEnded(at: now, into: &$1) }
        }

        mutating func request(_ bytes: Int) -> [SessionAction] {
            run { _ = try? $0.sendRequest(sessionBytes(bytes), on: SessionConnectionID(1), into: &$1) }
        }

        /// Handles the settings of a new stream.
        mutating func move(_ number: UInt64, received: UInt64, of id: SessionID = SessionMovingTests.id) throws -> [SessionFrame] {
            var settings = SessionSettings()
            settings.session = id
            settings.move = SessionMove(number: number, received: received)
            let now = now
            var actions: [SessionAction] = []
            try machine.move(settings, at: now, into: &actions)
            return actions.sentFrames
        }
    }

    /// A server with the client's connection 1 open, after 1 frame in each direction.
    private func server() -> Side {
        var side = Side(SessionStateMachine(role: .server, offer: .acceptor))
        _ = side.start()
        var settings = SessionSettings()
        settings.features = ["move"]
        settings.session = Self.id
        side.receive(.settings(settings))
        side.receive(.open(SessionOpening(serviceName: "s")), 1)
        side.run { _ = $0.accept(SessionConnectionID(1), at: .zero, into: &$1) }
        return side
    }

    /// A client with connection 1 open, after 1 frame in each direction.
    private func client() -> Side {
        var side = Side(SessionStateMachine(role: .client, offer: .opener(Self.id)))
        _ = side.start()
        side.run { _ = try? $0.openConnection(SessionOpening(serviceName: "s"), into: &$1) }
        var settings = SessionSettings()
        settings.features = ["move"]
        side.receive(.settings(settings))
        side.receive(.opened, 1)
        return side
    }

    private func answer(_ side: inout Side, _ payload: SessionFrame.Payload) -> (isMoved: Bool, actions: [SessionAction]) {
        var isMoved = false
        let now = side.now
        let actions = side.run { isMoved = $0.takeAnswer(SessionFrame(payload), at: now, into: &$1) }
        return (isMoved, actions)
    }

    @Test func receivedFramesAreAcknowledged() {
        var side = server()
        #expect(side.machine.nextDeadline == SessionWire.ackInterval)
        #expect(side.pass(SessionWire.ackInterval).sentFrames == [SessionFrame(.ack(1))])
        #expect(side.receive(.ping(1)).sentFrames == [SessionFrame(.pong(1))])
        #expect(side.machine.nextDeadline != side.now + SessionWire.ackInterval)
        // By bytes.
        let frames = (1...3).map {
            SessionFrame(.request(.inline(sessionBytes(30_000)), timeLeft: nil), connection: .init(1), number: $0)
        }
        #expect(side.receive(frames).sentFrames == [SessionFrame(.ack(4))])
        // By frames.
        let cancels = (0..<256).map { _ in SessionFrame(.cancel, connection: .init(1), number: 1) }
        #expect(side.receive(cancels).sentFrames == [SessionFrame(.ack(260))])
    }

    @Test func withoutAcknowledgementsASideStopsAndThenGoesOn() {
        var side = client()
        for _ in 0..<3 { _ = side.request(32_000) }
        side.receive(.window(3 * 32_016), 1)
        var sent = 1 + 3
        var waited = 0
        while waited < 3 {
            let frames = side.request(32_000).sentFrames
            side.receive(.window(32_016), 1)
            if frames.isEmpty { waited += 1 } else { sent += 1 }
        }
        #expect((SessionWire.keptBytes / 33_000...SessionWire.keptBytes / 31_000 + 2).contains(sent))
        #expect(!side.machine.hasData)
        #expect(side.receive(.ack(UInt64(sent))).sentFrames.count == 3)
        #expect(side.machine.end == nil)
    }

    @Test func repliesThatWaitAreBounded() {
        var side = server()
        for number in 1...20 as ClosedRange<UInt32> {
            side.receive(.request(.inline(sessionBytes(0)), timeLeft: nil), 1, number)
            side.run { _ = try? $0.respond(to: sessionRequest(number), sessionBytes(32_000), at: .zero, into: &$1) }
            side.receive(.window(32_016), 1)
        }
        var (connection, end) = (3 as UInt32, SessionEnd?.none)
        while end == nil, connection < 20_000 {
            side.receive(.open(SessionOpening(serviceName: "s")), connection)
            end = side.run { $0.refuse(SessionConnectionID(connection), SessionRejection(.unknown), at: .zero, into: &$1) }.end
            end = end ?? side.machine.end
            let written = side.machine.repliesWritten
            side.machine.flushed(repliesUpTo: written)
            connection += 2
        }
        #expect(end == .failed(.tooManyReplies))
    }

    @Test func aLostStreamIsWaitedFor() throws {
        var side = server()
        #expect(side.lose() == [.streamLost])
        #expect(!side.machine.hasStream && side.machine.nextDeadline == SessionWire.pathInterval)
        #expect(side.pass(.seconds(29)) == [])
        #expect(try side.move(1, received: 1) == [SessionFrame(.moved(1))])
        #expect(side.pass(.seconds(5)).end == nil && side.machine.hasStream)
        #expect(side.lose() == [.streamLost])
        #expect(side.pass(SessionWire.pathInterval).end == .connectionLost)
        #expect(side.machine.id == nil)
        #expect(throws: SessionError.invalidMove) { try side.move(2, received: 1) }
    }

    @Test func aSilentStreamIsLost() {
        for probes in [true, false] {
            var side = client()
            if probes {
                side.run { $0.probe(at: .zero, into: &$1) }
                #expect(side.pass(SessionWire.probeInterval).contains(.streamLost))
            } else {
                for _ in 0..<2 { _ = side.pass(.seconds(45)) }
                #expect(side.pass(.seconds(45)).contains(.streamLost))
            }
            #expect(side.machine.end == nil)
        }
    }

    @Test func framesAreSentAgainFromTheCount() throws {
        var side = server()
        for number in 1...3 as ClosedRange<UInt32> {
            side.receive(.request(.inline(sessionBytes(0)), timeLeft: nil), 1, number)
            side.run { _ = try? $0.respond(to: sessionRequest(number), sessionBytes(Int(number)), at: .zero, into: &$1) }
        }
        side.receive(.ack(1))
        let frames = try side.move(1, received: 2)
        #expect(frames.map(\.number) == [0, 2, 3])
        #expect(frames.first == SessionFrame(.moved(4)))
        // The older stream still exists for the opener: the same frames go out again with a later move.
        #expect(try side.move(2, received: 2).map(\.number) == [0, 2, 3])
        #expect(try side.move(7, received: 4).map(\.number) == [0])
    }

    @Test func invalidMovesAreRefused() throws {
        var side = server()
        #expect(throws: SessionError.invalidMove) { try side.move(0, received: 1) }
        #expect(throws: SessionError.invalidCount) { try side.move(1, received: 2) }
        #expect(try side.move(1, received: 1) == [SessionFrame(.moved(1))])
        #expect(throws: SessionError.invalidMove) { try side.move(1, received: 1) }
        #expect(throws: SessionError.invalidCount) { try side.move(2, received: 0) }
        #expect(throws: SessionError.invalidCount) { try side.move(.max, received: .max) }
        #expect(throws: SessionError.invalidMove) { try side.move(2, received: 1, of: try #require(SessionID(bytes: Array(1..<17)))) }
        #expect(side.machine.end == nil)
        #expect(try side.move(.max, received: 1) == [SessionFrame(.moved(1))])
        var opener = client()
        #expect(throws: SessionError.invalidMove) { try opener.move(1, received: 1) }
        #expect(server().machine.end == nil)
        var acceptor = server()
        #expect(acceptor.machine.beginMove() == nil)
    }

    @Test(arguments: [0, 2, UInt64.max]) func falseAcknowledgementsEndTheSession(count: UInt64) {
        var side = server()
        side.receive(.ack(1))
        #expect(side.receive(.ack(count)).brokenRule == .invalidCount)
        var opener = client()
        opener.receive(.ack(1))
        _ = opener.machine.beginMove()
        #expect(answer(&opener, .moved(count)).actions.end == .failed(.invalidCount))
    }

    @Test func theOpenerTakesOneAnswer() throws {
        var side = client()
        let begun = side.machine.beginMove()
        let settings = try #require(begun)
        #expect(settings.move == SessionMove(number: 1, received: 1) && settings.session == Self.id)
        #expect(side.machine.beginMove() == nil)
        // Frames go on over the older stream, from which nothing more is read.
        #expect(side.request(5).sentFrames.count == 1)
        #expect(!side.machine.reads)
        let (isMoved, actions) = answer(&side, .moved(1))
        #expect(isMoved && actions.sentFrames.map(\.number) == [1] && side.machine.reads)
        #expect(!answer(&side, .moved(1)).isMoved)
        #expect(side.receive(.moved(1)).brokenRule == .unexpectedFrame)
    }

    @Test func aRefusedMoveLeavesTheOlderStream() {
        var side = client()
        _ = side.machine.beginMove()
        let refusal = SessionGoAway(SessionError.invalidMove)
        #expect(answer(&side, .goaway(refusal)).actions == [])
        #expect(side.machine.reads)
        #expect(side.machine.beginMove()?.move?.number == 2)
        #expect(side.lose() == [.streamLost])
        #expect(answer(&side, .goaway(refusal)).actions.end == .failedByPeer(refusal))
    }

    @Test func anUnansweredMoveLeavesTheOlderStream() {
        var side = client()
        _ = side.machine.beginMove()
        var decoder = SessionFrameDecoder()
        decoder.append(encodedSession([SessionFrame(.ping(9))]))
        #expect(side.run { _ = $0.receive(from: &decoder, at: .zero, into: &$1) } == [])
        side.machine.moveFailed()
        #expect(side.run { _ = $0.receive(from: &decoder, at: .zero, into: &$1) }.sentFrames == [SessionFrame(.pong(9))])
        // Any other first frame is no answer.
        _ = side.machine.beginMove()
        #expect(!answer(&side, .ping(1)).isMoved && side.machine.reads)
    }

    @Test func aLostSessionCanBeEnded() {
        var side = client()
        _ = side.lose()
        let actions = side.run { machine, actions in
            machine.drain(into: &actions)
            machine.closeConnection(SessionConnectionID(1), at: .zero, into: &actions)
        }
        #expect(actions.sentFrames.isEmpty && actions.end == .drained)
    }

    @Test func timeWithoutAStreamDoesNotCountForBodies() throws {
        var side = server()
        side.receive(.request(.announced(40_000), timeLeft: nil), 1, 1)
        side.run { $0.reserved(for: .request, at: .zero, into: &$1) }
        #expect(side.pass(.seconds(40)).end == nil)
        _ = side.lose()
        #expect(side.pass(.seconds(25)).end == nil)
        _ = try side.move(1, received: 1)
        #expect(side.pass(.seconds(19)).end == nil)
        #expect(side.pass(.seconds(2)).end == .failed(.bodyStalled))
    }

    /// Any sequence of frames and streams of a hostile peer keeps the memory bounded, and does not trap.
    @Test(arguments: 0..<Sweep.count(100 as UInt64, full: 3_000)) func hostilePeersAreBounded(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var side = seed % 2 == 0 ? server() : client()
        var numbers = 0 as UInt32
        func count() -> UInt64 { [0, 1, 2, 3, 50, .max, .max - 1].randomElement(using: &random) ?? 0 }
        for _ in 0..<400 where side.machine.end == nil {
            switch Int.random(in: 0..<12, using: &random) {
            case 0: side.receive(.ack(Int.random(in: 0..<4, using: &random) == 0 ? count() : 1))
            case 1 where Int.random(in: 0..<10, using: &random) == 0: side.receive(.moved(count()))
            case 2: _ = try? side.move(count(), received: Int.random(in: 0..<2, using: &random) == 0 ? count() : 1)
            case 3: _ = side.lose()
            case 4: _ = side.pass(.milliseconds(Int.random(in: 0..<9_000, using: &random)))
            case 5: _ = side.machine.beginMove()
            case 6:
                _ = answer(
                    &side,
                    [.moved(count()), .goaway(SessionGoAway(.invalidMove)), .ping(1)].randomElement(using: &random) ?? .ping(1)
                )
            case 7: side.machine.moveFailed()
            case 8: _ = side.request(Int.random(in: 0..<60_000, using: &random))
            default:
                numbers += 1
                side.receive(.request(.inline(sessionBytes(9_000)), timeLeft: nil), 1, numbers)
                let request = sessionRequest(numbers)
                side.run { _ = try? $0.respond(to: request, sessionBytes(40_000), at: .zero, into: &$1) }
                side.receive(.grant(.response), 1, numbers)
                side.run { while $0.nextData(at: .zero, into: &$1) {} }
            }
            #expect(side.machine.heldBytes <= SessionWire.windowBytes)
        }
    }
}

extension [SessionAction] {
    fileprivate var sentFrames: [SessionFrame] {
        compactMap { if case .send(let frame) = $0 { frame } else { nil } }
    }
}
