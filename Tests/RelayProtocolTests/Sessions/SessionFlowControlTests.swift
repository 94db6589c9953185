// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

private let one = SessionConnectionID(1)

@Suite struct SessionFlowControlTests {
    // MARK: Windows

    @Test func framesAboveTheWindowWaitInOrder() throws {
        var side = SessionSide.withOpenConnection()
        var sentCount = 0
        for _ in 0..<10 { sentCount += try side.request(sessionBytes(32_768)).1.count }
        #expect(sentCount == 7, "7 × 32,784 of 262,144")
        // Small frames wait behind them.
        let (small, actions) = try side.request(sessionBytes(1))
        #expect(actions == [])
        let credit = side.receive(.window(32_784), 1)
        #expect(credit.count == 1)
        let more = side.receive(.window(32_784 * 6), 1)
        #expect(more.last == sentFrame(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, small.number))
        #expect(more.count == 3)
    }

    @Test func stalledConnectionDoesNotBlockOthers() throws {
        var side = SessionSide.withOpenConnection()
        for _ in 0..<10 { _ = try side.request(sessionBytes(32_768)) }
        side.receive(.open(SessionOpening(serviceName: "other")), 3)
        side.run { $0.accept(SessionConnectionID(3), at: .zero, into: &$1) }
        #expect(try side.request(sessionBytes(32_768), on: 3).1.count == 1)
    }

    @Test func creditIsReturnedWhenTheAppTakesTheMessage() {
        var side = SessionSide.withOpenConnection()
        var receipts: [MessageCredit] = []
        for number: UInt32 in 1...4 {
            receipts += side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, number).receipts
        }
        #expect(side.machine.heldBytes == 4 * 32_784)
        var actions: [SessionAction] = []
        for receipt in receipts { side.machine.consumed(receipt, into: &actions) }
        #expect(actions == [sentFrame(.window(2 * 32_784), 1), sentFrame(.window(2 * 32_784), 1)])
        #expect(side.machine.heldBytes == 0)
    }

    @Test func errorsAndDroppedResponsesReturnCredit() throws {
        var side = SessionSide.withOpenConnection()
        var credit = 0
        for number: UInt32 in 1...40 {
            let (id, _) = try side.request(sessionBytes(1))
            if number % 2 == 0 { side.run { $0.cancelRequest(id, into: &$1) } }
            let payload: SessionFrame.Payload =
                number % 2 == 0
                ? .response(.inline(sessionBytes(10_000))) : .error(SessionFailure(.failure, String(repeating: "x", count: 1_024)))
            for case .send(let frame) in side.receive(payload, 1, number) {
                if case .window(let bytes) = frame.payload { credit += Int(bytes) }
            }
        }
        let total = 20 * (14 + 2 + 10_000) + 20 * (14 + 2 + 1_024)
        #expect(total - credit < SessionWire.creditStep)
        #expect(side.machine.heldBytes == 0)
    }

    @Test func exceededWindowEndsTheSession() {
        var side = SessionSide.withOpenConnection()
        for number: UInt32 in 1...7 {
            #expect(side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, number).end == nil)
        }
        #expect(side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, 8).brokenRule == .windowExceeded)
    }

    @Test func unreturnedCreditCannotBeUsed() {
        var side = SessionSide.withOpenConnection()
        for receipt in side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, 1).receipts {
            #expect(side.run { $0.consumed(receipt, into: &$1) } == [])
        }
        for number: UInt32 in 2...7 {
            #expect(side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, number).end == nil)
        }
        #expect(side.receive(.request(.inline(sessionBytes(32_768)), timeLeft: nil), 1, 8).brokenRule == .windowExceeded)
    }

    @Test func excessCreditEndsTheSession() throws {
        var side = SessionSide.withOpenConnection()
        _ = try side.request(sessionBytes(100))
        #expect(side.receive(.window(116), 1) == [])
        #expect(side.receive(.window(1), 1).brokenRule == .windowOverflow)
        side = .withOpenConnection()
        #expect(side.receive(.window(.max), 1).brokenRule == .windowOverflow)
    }

    // MARK: Announced bodies

    @Test func largeMessageWaitsForItsGrant() throws {
        var side = SessionSide.withOpenConnection()
        let (id, announced) = try side.request(sessionBytes(70_000, 3))
        #expect(announced == [sentFrame(.request(.announced(70_000), timeLeft: nil), 1, 1)])
        #expect(!side.machine.hasData)
        #expect(side.receive(.grant(.request), 1, id.number) == [])
        #expect(side.machine.hasData)
        #expect(side.run { $0.nextData(maximumBytes: 0, at: .zero, into: &$1) } == [])
        #expect(
            side.run { $0.nextData(at: .zero, into: &$1) } == [sentFrame(.data(sessionBytes(32_768, 3), of: .request, isLast: false), 1, 1)]
        )
        #expect(
            side.run { $0.nextData(maximumBytes: 10_000, at: .zero, into: &$1) }
                == [sentFrame(.data(sessionBytes(10_000, 3), of: .request, isLast: false), 1, 1)]
        )
        #expect(
            side.run { $0.nextData(at: .zero, into: &$1) } == [sentFrame(.data(sessionBytes(27_232, 3), of: .request, isLast: true), 1, 1)]
        )
        #expect(side.run { $0.nextData(at: .zero, into: &$1) } == [])
        #expect(side.receive(.response(.inline(sessionBytes(1))), 1, 1).count == 1)
    }

    @Test func slicesAreNotCopied() throws {
        var side = SessionSide.withOpenConnection()
        let message = sessionBytes(70_000)
        _ = try side.request(message)
        side.receive(.grant(.request), 1, 1)
        guard case .send(let frame) = side.run({ $0.nextData(at: .zero, into: &$1) }).first,
            case .data(let slice, of: _, isLast: _) = frame.payload
        else {
            Issue.record("no data")
            return
        }
        #expect(slice.withUnsafeReadableBytes { $0.baseAddress } == message.withUnsafeReadableBytes { $0.baseAddress })
    }

    @Test func announcedMessageIsAssembled() {
        var side = SessionSide.withOpenConnection()
        #expect(side.receive(.request(.announced(40_000), timeLeft: .seconds(1)), 1, 1) == [.reserve(40_000, for: .request)])
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [sentFrame(.grant(.request), 1, 1)])
        #expect(side.receive(.data(sessionBytes(32_768), of: .request, isLast: false), 1, 1) == [])
        let actions = side.receive(.data(sessionBytes(7_232), of: .request, isLast: true), 1, 1)
        let windowBytes = SessionFrame(.request(.announced(40_000), timeLeft: .seconds(1)), sessionRequest(1)).size
        let receipt = MessageCredit(connection: one, kind: .request, windowBytes: windowBytes, assemblyBytes: 40_000)
        #expect(actions == [.requestReceived(sessionRequest(1), message: sessionBytes(40_000), timeLeft: .seconds(1), receipt)])
        #expect(side.machine.requestAssembly.bytes == 40_000, "until the app has taken it")
        #expect(side.run { $0.consumed(receipt, into: &$1) } == [.release(40_000, for: .request)])
        #expect(side.machine.heldBytes == 0)
    }

    @Test func bodiesAreSentInTurn() throws {
        var side = SessionSide.withOpenConnection()
        for _ in 0..<4 { _ = try side.request(sessionBytes(100_000)) }
        for number: UInt32 in 1...4 { side.receive(.grant(.request), 1, number) }
        var order: [UInt32] = []
        while side.machine.hasData {
            for case .send(let frame) in side.run({ $0.nextData(at: .zero, into: &$1) }) { order.append(frame.number) }
        }
        #expect(order == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4])
    }

    @Test func grantsAreGivenInOrderWithinTheBudget() {
        var limits = Limits()
        limits[.assemblyBytesPerSession] = 100_000
        var side = SessionSide.withOpenConnection(limits: limits)
        #expect(side.receive(.request(.announced(60_000), timeLeft: nil), 1, 1) == [.reserve(60_000, for: .request)])
        #expect(side.receive(.request(.announced(50_000), timeLeft: nil), 1, 2) == [])
        #expect(side.receive(.request(.announced(33_000), timeLeft: nil), 1, 3) == [], "it would fit, and is not served first")
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [sentFrame(.grant(.request), 1, 1)])
        #expect(side.receive(.cancel, 1, 1) == [.release(60_000, for: .request), .reserve(50_000, for: .request)])
        #expect(
            side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [
                sentFrame(.grant(.request), 1, 2), .reserve(33_000, for: .request),
            ]
        )
        #expect(side.machine.requestAssembly.bytes == 83_000)
    }

    @Test func responsesDoNotWaitForRequests() throws {
        var limits = Limits()
        limits[.assemblyBytesPerSession] = 100_000
        var side = SessionSide.withOpenConnection(limits: limits)
        let (id, _) = try side.request(sessionBytes(1))
        // The budget for requests is full, and more wait.
        #expect(side.receive(.request(.announced(60_000), timeLeft: nil), 1, 1) == [.reserve(60_000, for: .request)])
        #expect(side.receive(.request(.announced(50_000), timeLeft: nil), 1, 2) == [])
        #expect(side.receive(.response(.announced(90_000)), 1, id.number) == [.reserve(90_000, for: .response)])
        #expect(side.run { $0.reserved(for: .response, at: .zero, into: &$1) } == [sentFrame(.grant(.response), 1, id.number)])
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [sentFrame(.grant(.request), 1, 1)])
        #expect((side.machine.requestAssembly.bytes, side.machine.responseAssembly.bytes) == (60_000, 90_000))
    }

    @Test func reservationForACancelledBodyIsReleased() {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.announced(60_000), timeLeft: nil), 1, 1)
        side.receive(.request(.announced(50_000), timeLeft: nil), 1, 2)
        #expect(side.receive(.cancel, 1, 1) == [], "the answer to the reservation is awaited")
        #expect(
            side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [
                .release(60_000, for: .request), .reserve(50_000, for: .request),
            ]
        )
        side.run { $0.connectionLost(into: &$1) }
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [.release(50_000, for: .request)])
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [])
        #expect(side.machine.requestAssembly.bytes == 0)
    }

    @Test func announcementAboveTheLimitFailsItsRequestOnly() throws {
        var limits = Limits()
        limits[.messageBytes] = 50_000
        var side = SessionSide.withOpenConnection(limits: limits)
        let excess = LimitExceeded(limit: .messageBytes, allowed: 50_000, requested: 50_001)
        #expect(
            side.receive(.request(.announced(50_001), timeLeft: nil), 1, 1)
                == [sentFrame(.error(SessionFailure(.messageTooLarge, excess.description)), 1, 1)]
        )
        let (id, _) = try side.request(sessionBytes(1))
        #expect(
            side.receive(.response(.announced(50_001)), 1, id.number)
                == [sentFrame(.cancel, 1, id.number), .requestFailed(id, .responseTooLarge(excess))]
        )
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 2)
        #expect(throws: SessionSendError.limitExceeded(excess)) { try side.respond(2, sessionBytes(50_001)) }
        #expect(try side.respond(2, sessionBytes(5)).0 == .sent, "the request was still waiting")
        #expect(side.machine.heldBytes == 17, "only the message that the app has not taken")
    }

    @Test func errorForATooLargeRequestWaitsForTheWindow() throws {
        var limits = Limits()
        limits[.messageBytes] = 50_000
        var side = SessionSide.withOpenConnection(limits: limits)
        for _ in 0..<8 { _ = try side.request(sessionBytes(32_768)) }
        #expect(side.receive(.request(.announced(50_001), timeLeft: nil), 1, 1) == [])
        #expect(side.receive(.data(sessionBytes(1), of: .request, isLast: false), 1, 1) == [])
        let freed = side.receive(.window(7 * 32_784), 1)
        #expect(freed.count == 2, "no action for the app: it did not receive the request")
        #expect(side.receive(.cancel, 1, 1) == [])
    }

    @Test func dataMustBeGrantedAndOfTheAnnouncedLength() {
        func side(granted: Bool) -> SessionSide {
            var side = SessionSide.withOpenConnection()
            side.receive(.request(.announced(40_000), timeLeft: nil), 1, 1)
            if granted { side.run { $0.reserved(for: .request, at: .zero, into: &$1) } }
            return side
        }
        var early = side(granted: false)
        #expect(early.receive(.data(sessionBytes(1), of: .request, isLast: false), 1, 1).brokenRule == .dataNotGranted)
        var long = side(granted: true)
        long.receive(.data(sessionBytes(32_768), of: .request, isLast: false), 1, 1)
        #expect(long.receive(.data(sessionBytes(7_233), of: .request, isLast: true), 1, 1).brokenRule == .bodyLengthMismatch)
        var short = side(granted: true)
        #expect(short.receive(.data(sessionBytes(32_768), of: .request, isLast: true), 1, 1).brokenRule == .bodyLengthMismatch)
        var endless = side(granted: true)
        endless.receive(.data(sessionBytes(32_768), of: .request, isLast: false), 1, 1)
        #expect(endless.receive(.data(sessionBytes(7_232), of: .request, isLast: false), 1, 1).brokenRule == .bodyLengthMismatch)
    }

    // MARK: Floods

    @Test func tooManyUnflushedRepliesEndTheSession() {
        var side = SessionSide()
        for _ in 0..<SessionWire.unflushedReplies { #expect(side.receive(.ping(1)).count == 1) }
        var other = side
        #expect(side.receive(.ping(1)).brokenRule == .tooManyReplies)
        let count = other.machine.repliesSent
        other.machine.flushed(repliesUpTo: count)
        #expect(other.receive(.ping(1)).count == 1)
    }

    @Test func unflushedErrorsEndTheSession() {
        var side = SessionSide.withOpenConnection()
        for number: UInt32 in 1...UInt32(SessionWire.unflushedReplies) {
            side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, number)
            side.run { $0.failRequest(sessionRequest(number), SessionFailure(.failure), into: &$1) }
            guard side.machine.end == nil else { break }
        }
        // The connection's `opened` counts too.
        #expect(side.receive(.pong(1)).brokenRule == .tooManyReplies)
    }

    @Test func unflushedRejectionsEndTheSession() {
        var limits = Limits()
        limits[.connectionsPerSession] = 1
        var side = SessionSide.withOpenConnection(limits: limits)
        var id: UInt32 = 3
        while side.machine.end == nil, id < 20_000 {
            side.receive(.open(SessionOpening(serviceName: "x")), id)
            id += 2
        }
        #expect(side.machine.end == .failed(.tooManyReplies))
    }

    @Test func cancelledAnnouncementsLeaveNoState() {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.announced(40_000), timeLeft: nil), 1, 1)
        for number: UInt32 in 2...5_000 {
            side.receive(.request(.announced(40_000), timeLeft: nil), 1, number)
            side.receive(.cancel, 1, number)
            side.machine.flushed(repliesUpTo: side.machine.repliesSent)
        }
        #expect(side.machine.end == nil)
        #expect(side.machine.requestAssembly.announcements.count == 1)
        #expect(side.run { $0.reserved(for: .request, at: .zero, into: &$1) } == [sentFrame(.grant(.request), 1, 1)])
    }

    @Test func removableQueueKeepsItsOrder() {
        var line = RemovableQueue<String>()
        let a = line.append("a")
        let b = line.append("b")
        let c = line.append("c")
        line.remove(a)
        #expect(line.first?.element == "b")
        #expect(line.remove(c) == "c")
        #expect(line.remove(b) == "b")
        #expect(line.first == nil && line.isEmpty)
        _ = line.append("d")
        #expect(line.first?.element == "d")
    }
}
