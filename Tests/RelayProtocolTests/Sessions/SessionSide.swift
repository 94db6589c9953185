// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

@testable import RelayProtocol

/// One machine under test, with manual input.
struct SessionSide {
    var machine: SessionStateMachine
    var now = Duration.zero

    /// A side that has received the other's settings.
    init(_ role: SessionStateMachine.Role = .server, limits: Limits = Limits(), peerLimits: Limits = Limits()) {
        machine = SessionStateMachine(role: role, limits: limits)
        var actions: [SessionAction] = []
        machine.start(at: now, into: &actions)
        machine.receive(SessionFrame(.settings(SessionSettings(limits: peerLimits))), at: now, into: &actions)
    }

    /// A server with the client's connection 1 open.
    static func withOpenConnection(limits: Limits = Limits(), peerLimits: Limits = Limits()) -> SessionSide {
        var side = SessionSide(limits: limits, peerLimits: peerLimits)
        _ = side.receive(.open(SessionOpening(serviceName: "echo")), 1)
        _ = side.run { $0.accept(SessionConnectionID(1), at: .zero, into: &$1) }
        return side
    }

    @discardableResult
    mutating func run(_ body: (inout SessionStateMachine, inout [SessionAction]) throws -> Void) rethrows -> [SessionAction] {
        var actions: [SessionAction] = []
        try body(&machine, &actions)
        return actions
    }

    @discardableResult
    mutating func receive(_ payload: SessionFrame.Payload, _ connection: UInt32 = 0, _ number: UInt32 = 0) -> [SessionAction] {
        let now = now
        return run {
            $0.receive(SessionFrame(payload, connection: SessionConnectionID(connection), number: number), at: now, into: &$1)
        }
    }

    mutating func request(_ message: ByteBuffer, on connection: UInt32 = 1) throws -> (SessionRequestID, [SessionAction]) {
        var id: SessionRequestID?
        let actions = try run { id = try $0.sendRequest(message, on: SessionConnectionID(connection), into: &$1) }
        guard let id else { throw SessionSendError.notOpen }
        return (id, actions)
    }

    mutating func respond(_ number: UInt32, _ message: ByteBuffer) throws -> (SessionResponseProgress, [SessionAction]) {
        var progress = SessionResponseProgress.dropped
        let now = now
        let actions = try run { progress = try $0.respond(to: sessionRequest(number), message, at: now, into: &$1) }
        return (progress, actions)
    }

    mutating func time(_ seconds: Int64) -> [SessionAction] {
        now = .seconds(seconds)
        let now = now
        return run { $0.handleDeadlines(at: now, into: &$1) }
    }
}

func sessionRequest(_ number: UInt32, on connection: UInt32 = 1) -> SessionRequestID {
    SessionRequestID(connection: SessionConnectionID(connection), number: number)
}

func sentFrame(_ payload: SessionFrame.Payload, _ connection: UInt32 = 0, _ number: UInt32 = 0) -> SessionAction {
    .send(SessionFrame(payload, connection: SessionConnectionID(connection), number: number))
}

extension [SessionAction] {
    var end: SessionEnd? {
        for case .ended(let end) in self { return end }
        return nil
    }

    /// The rule violation that was reported to the peer.
    var brokenRule: SessionError? {
        for case .send(let frame) in self {
            if case .goaway(let goaway) = frame.payload, let error = SessionError(rawValue: goaway.code), end == .failed(error) {
                return error
            }
        }
        return nil
    }

    /// The receipts of delivered messages.
    var receipts: [MessageCredit] {
        compactMap {
            switch $0 {
            case .requestReceived(_, message: _, timeLeft: _, let receipt), .responseReceived(_, message: _, let receipt): receipt
            default: nil
            }
        }
    }
}
