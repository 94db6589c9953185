// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

private let one = SessionConnectionID(1)
private let two = SessionConnectionID(2)
private let echo = SessionOpening(
    serviceName: "echo",
    appID: "com.example.echo",
    callerAppID: "com.example.caller",
    timeLeft: .seconds(30)
)

@Suite struct SessionStateMachineTests {
    // MARK: Settings

    @Test func settingsAreTheFirstFrameEachWay() {
        var machine = SessionStateMachine(role: .client)
        var actions: [SessionAction] = []
        machine.start(at: .zero, into: &actions)
        #expect(actions == [sentFrame(.settings(SessionSettings()))])

        actions = []
        machine.receive(SessionFrame(.ping(1)), at: .zero, into: &actions)
        #expect(actions.brokenRule == .settingsExpected)
    }

    @Test func skippedFrameBeforeSettingsIsIgnored() {
        var machine = SessionStateMachine(role: .client)
        var decoder = SessionFrameDecoder()
        decoder.append(rawSessionFrame(0x80, flags: 0xFF, connection: 9, number: 9, [1, 2, 3]))
        decoder.append(encodedSession([SessionFrame(.settings(SessionSettings())), SessionFrame(.ping(7))]))
        var actions: [SessionAction] = []
        machine.receive(from: &decoder, at: .zero, into: &actions)
        #expect(actions == [sentFrame(.pong(7))])
    }

    @Test func secondSettingsEndTheSession() {
        var side = SessionSide()
        #expect(side.receive(.settings(SessionSettings())).brokenRule == .settingsExpected)
    }

    @Test func lowerVersionIsRejected() {
        var machine = SessionStateMachine(role: .client)
        var settings = SessionSettings()
        settings.version = 0
        var actions: [SessionAction] = []
        machine.receive(SessionFrame(.settings(settings)), at: .zero, into: &actions)
        #expect(actions.brokenRule == .versionUnsupported)
    }

    @Test func lowerLimitOfBothSidesApplies() throws {
        var limits = Limits()
        limits[.messageBytes] = 100
        limits[.requestsPerConnection] = 2
        limits[.connectionsPerSession] = 1
        for (outgoing, incoming) in [(limits, Limits()), (Limits(), limits)] {
            var side = SessionSide.withOpenConnection(limits: outgoing, peerLimits: incoming)
            #expect(throws: SessionSendError.limitExceeded(LimitExceeded(limit: .messageBytes, allowed: 100, requested: 101))) {
                try side.request(sessionBytes(101))
            }
            _ = try side.request(sessionBytes(100))
            _ = try side.request(sessionBytes(1))
            #expect(throws: SessionSendError.limitExceeded(LimitExceeded(limit: .requestsPerConnection, allowed: 2, requested: 3))) {
                try side.request(sessionBytes(1))
            }
            #expect(throws: SessionSendError.limitExceeded(LimitExceeded(limit: .connectionsPerSession, allowed: 1, requested: 2))) {
                try side.run { _ = try $0.openConnection(echo, into: &$1) }
            }
        }
    }

    @Test func messageLimitIsBoundedByTheBudget() {
        var limits = Limits()
        limits[.assemblyBytesPerEndpoint] = 50_000
        #expect(SessionSettings(limits: limits).messageBytes == 12_500)
    }

    // MARK: Opening

    @Test func connectionIsOpenedBeforeSettingsArrive() throws {
        var machine = SessionStateMachine(role: .client)
        var actions: [SessionAction] = []
        machine.start(at: .zero, into: &actions)
        #expect(try machine.openConnection(echo, into: &actions) == one)
        #expect(try machine.openConnection(echo, into: &actions) == SessionConnectionID(3))
        #expect(actions.dropFirst() == [sentFrame(.open(echo), 1), sentFrame(.open(echo), 3)])
    }

    @Test func requestsRequireAnAcceptedConnection() throws {
        var client = SessionSide(.client)
        try client.run { _ = try $0.openConnection(echo, into: &$1) }
        #expect(throws: SessionSendError.notOpen) { try client.request(sessionBytes(1)) }
        #expect(client.receive(.opened, 1) == [.openSucceeded(one)])
        #expect(try client.request(sessionBytes(1)).0 == sessionRequest(1))

        var server = SessionSide()
        #expect(server.receive(.open(echo), 1) == [.openReceived(one, echo)])
        #expect(throws: SessionSendError.notOpen) { try server.request(sessionBytes(1)) }
        #expect(server.run { $0.accept(one, at: .zero, into: &$1) } == [sentFrame(.opened, 1)])
        #expect(try server.request(sessionBytes(1)).0 == sessionRequest(1))
        #expect(server.run { $0.accept(one, at: .zero, into: &$1) } == [])
    }

    @Test func rejectionCarriesItsCodeAndText() throws {
        let rejection = SessionRejection(.notAuthorized, "approve first")
        var server = SessionSide()
        server.receive(.open(echo), 1)
        #expect(server.run { $0.refuse(one, rejection, at: .zero, into: &$1) } == [sentFrame(.refused(rejection), 1)])
        #expect(server.machine.connectionCount == 0)

        var client = SessionSide(.client)
        try client.run { _ = try $0.openConnection(echo, into: &$1) }
        #expect(client.receive(.refused(rejection), 1) == [.openFailed(one, .refused(rejection))])
        #expect(client.machine.connectionCount == 0)
        #expect(client.receive(.opened, 1) == [], "closed ids are ignored")
    }

    @Test func tooManyConnectionsAreRefused() {
        var limits = Limits()
        limits[.connectionsPerSession] = 2
        var side = SessionSide(limits: limits)
        side.receive(.open(echo), 1)
        side.receive(.open(echo), 3)
        #expect(
            side.receive(.open(echo), 5) == [sentFrame(.refused(SessionRejection(.resourceLimitsExceeded, "connectionsPerSession")), 5)]
        )
    }

    @Test func closedConnectionsCountUntilTheAppDecides() {
        var limits = Limits()
        limits[.connectionsPerSession] = 2
        var side = SessionSide(limits: limits)
        for id: UInt32 in [1, 3] {
            side.receive(.open(echo), id)
            let closed = SessionClosure(.cancelled)
            #expect(side.receive(.close(closed), id) == [.connectionClosed(SessionConnectionID(id), .closed(closed))])
        }
        #expect(side.machine.connectionCount == 2)
        #expect(
            side.receive(.open(echo), 5).first == sentFrame(.refused(SessionRejection(.resourceLimitsExceeded, "connectionsPerSession")), 5)
        )
        #expect(side.run { $0.accept(one, at: .zero, into: &$1) } == [])
        side.run { $0.refuse(SessionConnectionID(3), SessionRejection(.unknown), at: .zero, into: &$1) }
        #expect(side.machine.connectionCount == 0)
    }

    @Test func openCanBeCancelled() throws {
        var client = SessionSide(.client)
        try client.run { _ = try $0.openConnection(echo, into: &$1) }
        #expect(
            client.run { $0.closeConnection(one, at: .zero, into: &$1) }
                == [sentFrame(.close(SessionClosure(.cancelled)), 1), .openFailed(one, .cancelled)]
        )
        #expect(client.receive(.opened, 1) == [])
        #expect(client.receive(.refused(SessionRejection(.unknown)), 1) == [])
    }

    @Test func tooLongNamesAreNotSent() {
        var client = SessionSide(.client)
        let long = SessionOpening(serviceName: "s", appID: String(repeating: "x", count: 5_000))
        #expect(throws: SessionSendError.metadataTooLong) { try client.run { _ = try $0.openConnection(long, into: &$1) } }
    }

    @Test func connectionIdsAreChecked() throws {
        for frame: (SessionFrame.Payload, UInt32, UInt32) in [
            (.open(echo), 2, 0), (.opened, 1, 0), (.opened, 2, 0), (.window(1), 5, 0), (.close(SessionClosure(.completed)), 2, 0),
            (.request(.inline(sessionBytes(1)), timeLeft: nil), 3, 1), (.cancel, 3, 1), (.grant(.request), 3, 1),
            (.refused(SessionRejection(.unknown)), 1, 0), (.data(sessionBytes(1), of: .request, isLast: true), 3, 1),
        ] {
            var side = SessionSide.withOpenConnection()
            #expect(side.receive(frame.0, frame.1, frame.2).brokenRule == .invalidConnection, "\(frame)")
        }
        var side = SessionSide.withOpenConnection()
        #expect(side.receive(.open(echo), 1).brokenRule == .invalidConnection)
        side = .withOpenConnection()
        side.receive(.open(echo), 9)
        #expect(side.receive(.open(echo), 7).brokenRule == .invalidConnection)
    }

    // MARK: Requests

    @Test func requestTakesOneFrameEachWay() throws {
        var server = SessionSide.withOpenConnection()
        let received = server.receive(.request(.inline(sessionBytes(5)), timeLeft: .seconds(3)), 1, 1)
        let receipt = MessageCredit(connection: one, kind: .request, windowBytes: 14 + 2 + 5 + 13, assemblyBytes: 0)
        #expect(received == [.requestReceived(sessionRequest(1), message: sessionBytes(5), timeLeft: .seconds(3), receipt)])
        let (progress, answer) = try server.respond(1, sessionBytes(7))
        #expect(progress == .sent)
        #expect(answer == [sentFrame(.response(.inline(sessionBytes(7))), 1, 1)])
        #expect(try server.respond(1, sessionBytes(7)) == (.dropped, []), "answered once")

        let (id, asked) = try server.request(sessionBytes(9))
        #expect(asked == [sentFrame(.request(.inline(sessionBytes(9)), timeLeft: nil), 1, 1)])
        let response = server.receive(.response(.inline(sessionBytes(0))), 1, 1)
        #expect(
            response == [
                .responseReceived(
                    id,
                    message: sessionBytes(0),
                    MessageCredit(connection: one, kind: .response, windowBytes: 16, assemblyBytes: 0)
                )
            ]
        )
    }

    @Test func errorEndsTheRequest() throws {
        let failure = SessionFailure(.failure, "no film in it")
        var server = SessionSide.withOpenConnection()
        server.receive(.request(.inline(sessionBytes(5)), timeLeft: nil), 1, 1)
        #expect(server.run { $0.failRequest(sessionRequest(1), failure, into: &$1) } == [sentFrame(.error(failure), 1, 1)])

        let (id, _) = try server.request(sessionBytes(1))
        #expect(server.receive(.error(failure), 1, id.number) == [.requestFailed(id, .failed(failure))])
        #expect(server.receive(.response(.inline(sessionBytes(1))), 1, id.number) == [], "the request has ended")
    }

    @Test func requestNumbersGrow() {
        let message = SessionFrame.Payload.request(.inline(sessionBytes(1)), timeLeft: nil)
        var side = SessionSide.withOpenConnection()
        side.receive(message, 1, 5)
        #expect(side.receive(message, 1, 5).brokenRule == .invalidRequest)
        side = .withOpenConnection()
        side.receive(message, 1, 5)
        #expect(side.receive(message, 1, 4).brokenRule == .invalidRequest)
        for payload: SessionFrame.Payload in [
            .cancel, .grant(.response), .data(sessionBytes(1), of: .request, isLast: true), .response(.inline(sessionBytes(1))),
            .error(SessionFailure(.failure)), .grant(.request), .data(sessionBytes(1), of: .response, isLast: true),
        ] {
            side = .withOpenConnection()
            #expect(side.receive(payload, 1, 1).brokenRule == .invalidRequest, "\(payload)")
        }
    }

    @Test func requestNumbersWrapAround() throws {
        var connection = SessionConnection(phase: .open)
        try connection.receivedNumber(0x7FFF_FFFF)
        try connection.receivedNumber(0xFFFF_FFFE)
        try connection.receivedNumber(3)
        #expect(throws: SessionError.invalidRequest) { try connection.receivedNumber(0xFFFF_FFFF) }
        try connection.checkUsed(0xFFFF_FFFF, isOutgoing: false)
        #expect(throws: SessionError.invalidRequest) { try connection.checkUsed(4, isOutgoing: false) }
    }

    @Test func moreRequestsThanAgreedEndTheSession() {
        var limits = Limits()
        limits[.requestsPerConnection] = 3
        var side = SessionSide.withOpenConnection(limits: limits)
        for number: UInt32 in 1...3 {
            #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, number).end == nil)
        }
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 4).brokenRule == .tooManyRequests)
    }

    @Test func unexpectedFramesEndTheSession() throws {
        func rule(
            _ payload: SessionFrame.Payload,
            _ connection: UInt32,
            _ number: UInt32,
            after prepare: (inout SessionSide) throws -> Void
        ) throws
            -> SessionError?
        {
            var side = SessionSide.withOpenConnection()
            try prepare(&side)
            return side.receive(payload, connection, number).brokenRule
        }
        let offer = { (side: inout SessionSide) in _ = side.receive(.open(echo), 3) }
        let asked = { (side: inout SessionSide) in _ = try side.request(sessionBytes(1)) }
        let askedMuch = { (side: inout SessionSide) in _ = try side.request(sessionBytes(40_000)) }
        let requestReceived = { (side: inout SessionSide) in _ = side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1) }
        let opening = { (side: inout SessionSide) in _ = try side.run { _ = try $0.openConnection(echo, into: &$1) } }
        let inline = SessionFrame.Message.inline(sessionBytes(1))
        #expect(try rule(.request(inline, timeLeft: nil), 3, 1, after: offer) == .unexpectedFrame)
        #expect(try rule(.request(inline, timeLeft: nil), 2, 1, after: opening) == .unexpectedFrame)
        #expect(try rule(.close(SessionClosure(.completed)), 2, 0, after: opening) == .unexpectedFrame)
        #expect(try rule(.grant(.request), 1, 1, after: asked) == .unexpectedFrame)
        #expect(try rule(.grant(.response), 1, 1, after: requestReceived) == .unexpectedFrame)
        #expect(try rule(.data(sessionBytes(1), of: .request, isLast: true), 1, 1, after: requestReceived) == .unexpectedFrame)
        #expect(try rule(.data(sessionBytes(1), of: .response, isLast: true), 1, 1, after: asked) == .unexpectedFrame)
        #expect(try rule(.response(inline), 1, 1, after: askedMuch) == .unexpectedFrame)
        #expect(
            try rule(.error(SessionFailure(.failure)), 1, 1) {
                try asked(&$0)
                $0.receive(.response(.announced(40_000)), 1, 1)
            } == .unexpectedFrame
        )
        #expect(
            try rule(.opened, 2, 0) {
                try opening(&$0)
                $0.receive(.opened, 2)
            } == .unexpectedFrame
        )
        #expect(
            try rule(.open(echo), 3, 0) { $0.receive(.goaway(SessionGoAway(lastConnection: two))) } == .unexpectedFrame
        )
    }

    // MARK: Cancelling

    @Test func cancellationEndsARequestInEveryPhase() throws {
        // While it waits for the response.
        var side = SessionSide.withOpenConnection()
        var (id, _) = try side.request(sessionBytes(1))
        let cancelled: [SessionAction] = [sentFrame(.cancel, 1, 1), .requestFailed(id, .cancelled)]
        #expect(side.run { $0.cancelRequest(id, into: &$1) } == cancelled)
        #expect(side.run { $0.cancelRequest(id, into: &$1) } == [])
        #expect(side.receive(.response(.inline(sessionBytes(1))), 1, 1) == [])

        // While it is announced, and when it is granted.
        side = .withOpenConnection()
        (id, _) = try side.request(sessionBytes(40_000))
        #expect(side.run { $0.cancelRequest(id, into: &$1) } == cancelled)
        #expect(side.receive(.grant(.request), 1, 1) == [])
        #expect(!side.machine.hasData)
        side = .withOpenConnection()
        (id, _) = try side.request(sessionBytes(40_000))
        side.receive(.grant(.request), 1, 1)
        side.run { $0.nextData(at: .zero, into: &$1) }
        #expect(side.machine.hasData)
        #expect(side.run { $0.cancelRequest(id, into: &$1) } == cancelled)
        #expect(!side.machine.hasData)

        // While the response is being received.
        side = .withOpenConnection()
        (id, _) = try side.request(sessionBytes(1))
        side.receive(.response(.announced(40_000)), 1, 1)
        side.run { $0.reserved(for: .response, at: .zero, into: &$1) }
        #expect(side.machine.responseAssembly.bytes == 40_000)
        #expect(
            side.run { $0.cancelRequest(id, into: &$1) } == [
                sentFrame(.cancel, 1, 1), .release(40_000, for: .response), .requestFailed(id, .cancelled),
            ]
        )
        #expect(side.machine.heldBytes == 0)
        #expect(side.receive(.data(sessionBytes(9), of: .response, isLast: false), 1, 1) == [])

        // While it waits for the window: the peer does not learn of it.
        side = .withOpenConnection()
        for _ in 0..<7 { _ = try side.request(sessionBytes(32_768)) }
        let (last, actions) = try side.request(sessionBytes(32_768))
        #expect(actions == [])
        #expect(side.run { $0.cancelRequest(last, into: &$1) } == [.requestFailed(last, .cancelled)])
    }

    @Test func requestCancelledByThePeerNeedsNoAnswer() throws {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        #expect(side.receive(.cancel, 1, 1) == [.requestCancelled(sessionRequest(1))])
        #expect(side.receive(.cancel, 1, 1) == [])
        #expect(try side.respond(1, sessionBytes(1)) == (.dropped, []))
        #expect(side.run { $0.failRequest(sessionRequest(1), SessionFailure(.failure), into: &$1) } == [])

        // Its message has not arrived completely.
        side.receive(.request(.announced(40_000), timeLeft: nil), 1, 2)
        side.run { $0.reserved(for: .request, at: .zero, into: &$1) }
        #expect(side.receive(.cancel, 1, 2) == [.release(40_000, for: .request)])

        // The response waits.
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 3)
        #expect(try side.respond(3, sessionBytes(40_000)).0 == .waiting)
        #expect(side.receive(.cancel, 1, 3) == [.responseFinished(sessionRequest(3), wasSent: false)])
        #expect(side.receive(.grant(.response), 1, 3) == [])
    }

    // MARK: Closing

    @Test func closingEndsRequestsOnBothSides() throws {
        let closure = SessionClosure(.completed, "done")
        var side = SessionSide.withOpenConnection()
        let (id, _) = try side.request(sessionBytes(1))
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        #expect(
            side.run { $0.closeConnection(one, closure, at: .zero, into: &$1) }
                == [.requestCancelled(sessionRequest(1)), .requestFailed(id, .connectionClosed(closure)), sentFrame(.close(closure), 1)]
        )
        #expect(side.machine.connectionCount == 0)
        #expect(side.receive(.response(.inline(sessionBytes(1))), 1, 1) == [], "frames for closed ids are dropped")

        side = .withOpenConnection()
        let (other, _) = try side.request(sessionBytes(1))
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        #expect(
            side.receive(.close(closure), 1) == [
                .requestFailed(other, .connectionClosed(closure)), .requestCancelled(sessionRequest(1)),
                .connectionClosed(one, .closed(closure)),
            ]
        )
        #expect(side.receive(.close(closure), 1) == [])
    }

    @Test func responsesAreSentBeforeTheConnectionCloses() throws {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        _ = try side.respond(1, sessionBytes(40_000))
        #expect(side.run { $0.closeConnection(one, at: .zero, into: &$1) } == [])
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 2) == [], "no new ones")
        side.receive(.grant(.response), 1, 1)
        side.run { $0.nextData(at: .zero, into: &$1) }
        let last = side.run { $0.nextData(at: .zero, into: &$1) }
        #expect(
            last.dropFirst() == [.responseFinished(sessionRequest(1), wasSent: true), sentFrame(.close(SessionClosure(.completed)), 1)]
        )
    }

    @Test func blockedResponsesAreSentBeforeTheConnectionCloses() throws {
        var side = SessionSide.withOpenConnection()
        for number: UInt32 in 1...8 {
            side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, number)
            #expect(try side.respond(number, sessionBytes(32_768)).0 == (number < 8 ? .sent : .waiting))
        }
        #expect(side.run { $0.closeConnection(one, at: .zero, into: &$1) } == [])
        #expect(
            side.receive(.window(65_536), 1) == [
                sentFrame(.response(.inline(sessionBytes(32_768))), 1, 8), .responseFinished(sessionRequest(8), wasSent: true),
                sentFrame(.close(SessionClosure(.completed)), 1),
            ]
        )
    }

    @Test func closingConnectionEndsWhenThePeerCancels() throws {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        _ = try side.respond(1, sessionBytes(40_000))
        side.run { $0.closeConnection(one, at: .zero, into: &$1) }
        #expect(
            side.receive(.cancel, 1, 1)
                == [.responseFinished(sessionRequest(1), wasSent: false), sentFrame(.close(SessionClosure(.completed)), 1)]
        )
    }

    @Test func closingConnectionCancelsItsRequests() throws {
        var side = SessionSide.withOpenConnection()
        let (id, _) = try side.request(sessionBytes(40_000))
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        _ = try side.respond(1, sessionBytes(40_000))
        let closure = SessionClosure(.completed)
        #expect(
            side.run { $0.closeConnection(one, closure, at: .zero, into: &$1) } == [
                sentFrame(.cancel, 1, 1), .requestFailed(id, .connectionClosed(closure)),
            ]
        )
    }

    @Test func closingConnectionTimesOut() throws {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        _ = try side.respond(1, sessionBytes(40_000))
        side.receive(.grant(.response), 1, 1)
        side.run { $0.closeConnection(one, at: .zero, into: &$1) }
        side.now = .seconds(40)
        side.receive(.pong(0))
        #expect(side.machine.nextDeadline == .seconds(60))
        #expect(
            side.time(60).prefix(2) == [
                sentFrame(.close(SessionClosure(.completed)), 1), .responseFinished(sessionRequest(1), wasSent: false),
            ]
        )
        #expect(side.machine.connectionCount == 0)
    }

    // MARK: Ending

    @Test func brokenStreamEndsEverythingOnce() throws {
        var side = SessionSide.withOpenConnection()
        try side.run { _ = try $0.openConnection(echo, into: &$1) }
        side.receive(.open(echo), 3)
        let (id, _) = try side.request(sessionBytes(1))
        let (large, _) = try side.request(sessionBytes(50_000))
        side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1)
        side.receive(.request(.announced(40_000), timeLeft: nil), 1, 2)
        side.run { $0.reserved(for: .request, at: .zero, into: &$1) }
        #expect(
            side.run { $0.connectionLost(into: &$1) } == [
                .requestFailed(id, .sessionEnded(.connectionLost)), .requestFailed(large, .sessionEnded(.connectionLost)),
                .requestCancelled(sessionRequest(1)), .release(40_000, for: .request),
                .connectionClosed(one, .sessionEnded(.connectionLost)),
                .openFailed(two, .sessionEnded(.connectionLost)), .connectionClosed(SessionConnectionID(3), .sessionEnded(.connectionLost)),
                .ended(.connectionLost),
            ]
        )
        #expect(side.run { $0.connectionLost(into: &$1) } == [])
        #expect(side.receive(.ping(1)) == [])
        #expect(side.machine.nextDeadline == nil)
        #expect(throws: SessionSendError.sessionEnding) { try side.run { _ = try $0.openConnection(echo, into: &$1) } }
        #expect(throws: SessionSendError.notOpen) { try side.request(sessionBytes(1)) }
    }

    @Test func drainedSessionEndsWithItsLastConnection() {
        var side = SessionSide.withOpenConnection()
        #expect(side.run { $0.drain(into: &$1) } == [sentFrame(.goaway(SessionGoAway(lastConnection: one)))])
        #expect(side.run { $0.drain(into: &$1) } == [])
        #expect(throws: SessionSendError.sessionEnding) { try side.run { _ = try $0.openConnection(echo, into: &$1) } }
        #expect(side.receive(.open(echo), 3) == [], "the peer knows from our goaway")
        #expect(side.receive(.request(.inline(sessionBytes(1)), timeLeft: nil), 1, 1).receipts.count == 1)
        #expect(side.receive(.close(SessionClosure(.completed)), 1).end == .drained)
    }

    @Test func opensAfterAGoAwayFailAsSessionEnding() throws {
        var side = SessionSide(.client)
        try side.run { _ = try $0.openConnection(echo, into: &$1) }
        try side.run { _ = try $0.openConnection(echo, into: &$1) }
        #expect(
            side.receive(.goaway(SessionGoAway(lastConnection: one))) == [
                .openFailed(SessionConnectionID(3), .refused(SessionRejection(.sessionEnding)))
            ]
        )
        #expect(!side.machine.takesConnections)
        #expect(side.receive(.opened, 1) == [.openSucceeded(one)])
        #expect(side.run { $0.closeConnection(one, at: .zero, into: &$1) }.end == .drained)
    }

    @Test func goAwayWithACodeEndsTheSession() {
        var side = SessionSide.withOpenConnection()
        let goaway = SessionGoAway(lastConnection: one, code: 9, message: "unexpectedFrame")
        #expect(side.receive(.goaway(goaway)).end == .failedByPeer(goaway))
    }

    @Test func undecodableStreamEndsTheSession() {
        var side = SessionSide.withOpenConnection()
        var decoder = SessionFrameDecoder()
        decoder.append(pings(1...2))
        // A length that no frame has.
        decoder.append(ByteBuffer(bytes: [0xFF, 0xFF, 0xFF, 0xFF, SessionFrameType.ping.rawValue] + [UInt8](repeating: 0, count: 9)))
        let actions = side.run { $0.receive(from: &decoder, at: .zero, into: &$1) }
        #expect(actions.prefix(2) == [.send(SessionFrame(.pong(1))), .send(SessionFrame(.pong(2)))])
        #expect(actions.brokenRule == .frameTooLarge)
        #expect(side.run { $0.receive(from: &decoder, at: .zero, into: &$1) }.isEmpty, "the session has ended")
    }

    @Test func receivedFramesPerCallAreLimited() {
        var side = SessionSide.withOpenConnection()
        var decoder = SessionFrameDecoder()
        decoder.append(pings(1...5))
        var counts: [Int] = []
        var pongs: [[SessionAction]] = []
        for most in [1, 2, .max, .max] {
            var count = 0
            pongs.append(side.run { count = $0.receive(from: &decoder, maximumFrames: most, at: .zero, into: &$1) })
            counts.append(count)
        }
        #expect(counts == [1, 2, 2, 0])
        #expect(pongs == [[1], [2, 3], [4, 5], []].map { $0.map { .send(SessionFrame(.pong($0))) } })
    }

    @Test func noFrameIsReadAfterAProtocolViolation() {
        var side = SessionSide.withOpenConnection()
        var decoder = SessionFrameDecoder()
        var bytes = encoded(SessionFrame(.settings(SessionSettings(limits: Limits()))))
        bytes.writeImmutableBuffer(pings(1...1))
        decoder.append(bytes)
        var count = 0
        let actions = side.run { count = $0.receive(from: &decoder, at: .zero, into: &$1) }
        #expect(count == 1)
        #expect(actions.brokenRule == .settingsExpected)
    }

    private func encoded(_ frame: SessionFrame) -> ByteBuffer {
        var bytes = ByteBuffer()
        SessionFrameEncoder.write(frame, to: &bytes)
        return bytes
    }

    private func pings(_ values: ClosedRange<UInt64>) -> ByteBuffer {
        ByteBuffer(bytes: values.flatMap { Array(encoded(SessionFrame(.ping($0))).readableBytesView) })
    }

    @Test func errorsAreNumberedConsecutively() {
        #expect(SessionError.allCases.map(\.rawValue) == Array(1...20))
    }

    // MARK: Time

    @Test func silentPeerIsPingedThenTimedOut() {
        var side = SessionSide.withOpenConnection()
        #expect(side.machine.nextDeadline == .seconds(45))
        #expect(side.time(44) == [])
        #expect(side.time(45) == [sentFrame(.ping(1))])
        #expect(side.time(89) == [])
        #expect(side.time(90) == [sentFrame(.ping(2))])
        #expect(side.machine.nextDeadline == .seconds(135))
        #expect(side.time(135).brokenRule == .timedOut)
    }

    @Test func anyFrameDelaysThePing() {
        var side = SessionSide.withOpenConnection()
        _ = side.time(45)
        side.now = .seconds(50)
        side.receive(.pong(1))
        #expect(side.machine.nextDeadline == .seconds(95))
        #expect(side.time(95) == [sentFrame(.ping(2))])
        side.machine.receivedBytes(at: .seconds(100))
        #expect(side.machine.nextDeadline == .seconds(145))
    }

    @Test func pendingRequestPingsSooner() throws {
        var side = SessionSide.withOpenConnection()
        let (id, _) = try side.request(sessionBytes(1))
        #expect(side.machine.nextDeadline == .seconds(15))
        #expect(side.time(15) == [sentFrame(.ping(1))])
        #expect(side.time(30) == [sentFrame(.ping(2))])
        #expect(side.time(45).contains(.requestFailed(id, .sessionEnded(.failed(.timedOut)))))
    }

    @Test func answeredRequestPingsLater() throws {
        var side = SessionSide(.client)
        try side.run { _ = try $0.openConnection(echo, into: &$1) }
        #expect(side.machine.nextDeadline == .seconds(15))
        side.receive(.opened, 1)
        #expect(side.machine.nextDeadline == .seconds(45))
        for answer: SessionFrame.Payload in [.response(.inline(sessionBytes(1))), .error(SessionFailure(.failure))] {
            let (id, _) = try side.request(sessionBytes(1))
            #expect(side.machine.nextDeadline == .seconds(15))
            side.receive(answer, 1, id.number)
            #expect(side.machine.nextDeadline == .seconds(45))
        }
    }

    @Test func pingIsAnswered() {
        var side = SessionSide()
        #expect(side.receive(.ping(77)) == [sentFrame(.pong(77))])
    }

    @Test func sessionWithoutConnectionsEndsAfterAMinute() {
        var side = SessionSide.withOpenConnection()
        side.now = .seconds(30)
        side.receive(.close(SessionClosure(.completed)), 1)
        side.machine.receivedBytes(at: .seconds(60))
        #expect(side.machine.nextDeadline == .seconds(90))
        #expect(side.time(90) == [sentFrame(.goaway(SessionGoAway(lastConnection: one))), .ended(.idle)])

        side = SessionSide()
        #expect(side.machine.nextDeadline == .seconds(45))
        side.machine.receivedBytes(at: .seconds(59))
        #expect(side.time(60).end == .idle)
    }

    @Test func stalledBodiesEndTheSession() {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.announced(40_000), timeLeft: nil), 1, 1)
        side.run { $0.reserved(for: .request, at: .zero, into: &$1) }
        // 4 KiB extend the deadline by a second, at most to a minute ahead.
        side.now = .seconds(10)
        side.receive(.data(sessionBytes(4_096), of: .request, isLast: false), 1, 1)
        side.machine.receivedBytes(at: .seconds(60))
        #expect(side.machine.nextDeadline == .seconds(61))
        side.now = .seconds(60)
        side.receive(.data(sessionBytes(32_768), of: .request, isLast: false), 1, 1)
        side.machine.receivedBytes(at: .seconds(68))
        #expect(side.machine.nextDeadline == .seconds(69))
        #expect(side.time(69).brokenRule == .bodyStalled)
        #expect(side.machine.heldBytes == 0)
    }

    @Test func trickledBodiesEndTheSession() {
        var side = SessionSide.withOpenConnection()
        side.receive(.request(.announced(16 << 20), timeLeft: nil), 1, 1)
        side.run { $0.reserved(for: .request, at: .zero, into: &$1) }
        var seconds: Int64 = 0
        var isOver = false
        while seconds < 3_600, !isOver {
            seconds += 20
            isOver = side.time(seconds).brokenRule == .bodyStalled
            side.receive(.data(sessionBytes(1), of: .request, isLast: false), 1, 1)
        }
        #expect(seconds <= 80)
    }

    @Test func messagesBehindACancelledRequestAreSent() throws {
        var side = SessionSide.withOpenConnection()
        // Seven of these fit into the window; the eighth waits.
        for _ in 0..<7 { _ = try side.request(sessionBytes(32_768)) }
        let (large, _) = try side.request(sessionBytes(32_768))
        let (_, waiting) = try side.request(sessionBytes(10))
        #expect(waiting == [])
        let actions = side.run { $0.cancelRequest(large, into: &$1) }
        #expect(actions.contains { if case .send(let frame) = $0, case .request = frame.payload { true } else { false } })
    }

    @Test func provokedErrorsCountAsReplies() {
        var limits = Limits()
        limits[.messageBytes] = 40_000
        var side = SessionSide.withOpenConnection(limits: limits)
        for number in 1...100 as ClosedRange<UInt32> { side.receive(.request(.announced(50_000), timeLeft: nil), 1, number) }
        #expect(side.machine.repliesSent >= 100)
    }
}
