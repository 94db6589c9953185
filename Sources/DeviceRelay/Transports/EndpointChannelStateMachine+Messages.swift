// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

// Messages both ways on an open connection.
extension EndpointChannelStateMachine {
    mutating func take(
        _ message: RelayMessage,
        _ connection: Connection,
        now: Int64,
        random: inout some RandomNumberGenerator
    ) -> [Action] {
        switch message {
        case .ok, .failure, .commandSettled:
            if case .sent(let ref) = connection.refresh, message.ref == ref { return refreshAnswered(message, connection) }
            return answer(message)
        case .authExpiring:
            guard connection.refresh == .none else { return [] }
            var connection = connection
            connection.refresh = .awaitingToken
            state = .open(connection)
            return [.requestToken(attempt: attempt)]
        case .authInvalidated(let message):
            if message.code == .endpointRevoked { return stop(.tokenInvalidated(message.code)) }
            return [.invalidateToken] + retry(.tokenInvalidated(message.code), close: 1000, now: now, random: &random)
        case .replaced:
            return stop(.endpointInUse)
        case .restarting(let message):
            backOff.asked(after: message.after.count, spread: message.spread.count, now: now, random: &random)
            return retry(.restarting, close: 1000, now: now, random: &random)
        case .challenge, .welcome, .rejected:
            return breach("type is not allowed after welcome", now: now, random: &random)
        default:
            return [.event(message)]
        }
    }

    mutating func refreshAnswered(_ message: RelayMessage, _ connection: Connection) -> [Action] {
        var connection = connection
        connection.refresh = .none
        state = .open(connection)
        guard case .failure(let failure) = message else { return [] }
        // The refresh is retried after a pause, because the relay ends the channel when the old token expires.
        if failure.code == .issuerUnavailable || failure.code == .unavailable {
            connection.refresh = .due(connection.lastReceived + Self.refreshPause)
            state = .open(connection)
            return []
        }
        return [.invalidateToken]
    }

    mutating func answer(_ message: RelayMessage) -> [Action] {
        guard let ref = message.ref, requests.remove(ref) else { return [] }
        let answer: ControlAnswer
        switch message {
        case .ok(let message): answer = .ok(message.result)
        case .failure(let message): answer = .failure(message)
        case .commandSettled(let message): answer = .settled(message)
        default: return []
        }
        return [.answer(ref, answer)] + roomAgain()
    }

    // MARK: Sending

    /// Sends a request. Its answer comes with the same ref, once.
    package mutating func request(
        now: Int64,
        _ make: (RequestRef) -> EndpointMessage
    ) throws(ControlSendError) -> (ref: RequestRef, actions: [Action]) {
        guard case .open = state else { throw .notConnected }
        guard requests.count < Self.maximumRequests, outboundBytes < Self.maximumOutboundBytes else {
            wasBusy = true
            throw .busy
        }
        let frame = try encode(make(nextRef))
        let ref = takeRef()
        requests.insert(ref, now: now)
        return (ref, [transmit(frame)])
    }

    /// Sends a message that has no answer.
    package mutating func say(_ message: EndpointMessage) throws(ControlSendError) -> [Action] {
        guard case .open = state else { throw .notConnected }
        guard outboundBytes < Self.maximumOutboundBytes else {
            wasBusy = true
            throw .busy
        }
        return [transmit(try encode(message))]
    }

    /// Records that the network has accepted this number of bytes.
    package mutating func written(attempt: Int, bytes: Int) -> [Action] {
        guard attempt == self.attempt else { return [] }
        outboundBytes = max(0, outboundBytes - bytes)
        return roomAgain()
    }

    /// Whether more waits for the network than half of what may wait.
    package var isNetworkBehind: Bool { outboundBytes > Self.maximumOutboundBytes / 2 }

    mutating func roomAgain() -> [Action] {
        guard wasBusy, case .open = state, requests.count <= Self.maximumRequests / 2, outboundBytes <= Self.maximumOutboundBytes / 2 else {
            return []
        }
        wasBusy = false
        return [.roomAgain]
    }

    func encode(_ message: EndpointMessage) throws(ControlSendError) -> ByteBuffer {
        do throws(ControlFrameError) {
            return try message.encode(limits: limits)
        } catch {
            switch error {
            case .tooLarge(let exceeded): throw .tooLarge(exceeded)
            case .malformed: throw .malformed
            }
        }
    }

    mutating func takeRef() -> RequestRef {
        defer { nextRef = nextRef.next }
        return nextRef
    }

    mutating func transmit(_ frame: ByteBuffer) -> Action {
        outboundBytes += frame.readableBytes
        return .send(attempt: attempt, frame)
    }
}
