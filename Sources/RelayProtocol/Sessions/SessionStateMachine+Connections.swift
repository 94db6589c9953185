// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The life of app service connections.
extension SessionStateMachine {
    /// Requests a connection. Exactly one of `openSucceeded` and `openFailed` follows.
    package mutating func openConnection(
        _ opening: SessionOpening,
        into actions: inout [SessionAction]
    ) throws(SessionSendError) -> SessionConnectionID {
        guard takesConnections else { throw .sessionEnding }
        try check(.connectionsPerSession, connections.count + 1, agreed.connectionsPerSession)
        // One limit covers the whole map, including the app id and the caller.
        guard opening.map.encodedMetadata.count <= SessionWire.metadataBytes else { throw .metadataTooLong }
        let first: UInt32 = role == .client ? 1 : 2
        let (next, overflow) = lastOutgoing.rawValue.addingReportingOverflow(lastOutgoing == .session ? first : 2)
        guard !overflow else { throw .sessionEnding }
        lastOutgoing = SessionConnectionID(next)
        connections.insert(SessionConnection(phase: .opening), for: lastOutgoing)
        awaitedCount += 1
        idleSince = nil
        send(SessionFrame(.open(opening), connection: lastOutgoing), into: &actions)
        return lastOutgoing
    }

    /// Accepts a connection of `openReceived`.
    /// - Returns: Whether the connection is open; `false` if the peer has closed it in the meantime.
    @discardableResult
    package mutating func accept(_ id: SessionConnectionID, at now: Duration, into actions: inout [SessionAction]) -> Bool {
        guard let index = connections.index(forKey: id) else { return false }
        switch connections.values[index].phase {
        case .offered:
            connections.values[index].phase = .open
            reply(SessionFrame(.opened, connection: id), into: &actions)
            return true
        case .abandoned:
            forget(id, at: now, into: &actions)
            return false
        case .opening, .open, .closing:
            return false
        }
    }

    /// Refuses a connection of `openReceived`.
    package mutating func refuse(
        _ id: SessionConnectionID,
        _ rejection: SessionRejection,
        at now: Duration,
        into actions: inout [SessionAction]
    ) {
        switch connections[id]?.phase {
        case .offered:
            reply(SessionFrame(.refused(rejection), connection: id), into: &actions)
            forget(id, at: now, into: &actions)
        case .abandoned:
            forget(id, at: now, into: &actions)
        case .opening, .open, .closing, nil:
            break
        }
    }

    /// Closes a connection, or cancels one that is not open yet. Unanswered requests end at once in both directions;
    /// responses that were handed in are sent before `close`.
    package mutating func closeConnection(
        _ id: SessionConnectionID,
        _ closure: SessionClosure = SessionClosure(.completed),
        at now: Duration,
        into actions: inout [SessionAction]
    ) {
        guard let index = connections.index(forKey: id) else { return }
        switch connections.values[index].phase {
        case .opening:
            send(SessionFrame(.close(SessionClosure(.cancelled)), connection: id), into: &actions)
            actions.append(.openFailed(id, .cancelled))
            forget(id, at: now, into: &actions)
        case .offered:
            refuse(id, SessionRejection(.appUnavailable), at: now, into: &actions)
        case .open:
            connections.values[index].phase = .closing(closure, until: now + SessionWire.closingInterval)
            closingCount += 1
            for number in connections.values[index].incoming.keys.sorted() {
                switch connections.values[index].incoming[number] {
                case .awaitingResponse, .receiving: dropTheirs(SessionRequestID(connection: id, number: number), into: &actions)
                case .sending, .rejecting, nil: break
                }
            }
            // If `close` has to wait, `cancel` frees the peer's requests and budget at once.
            let isLingering = !connections.values[index].incoming.isEmpty
            for number in connections.values[index].outgoing.keys.sorted() {
                let request = SessionRequestID(connection: id, number: number)
                if isLingering { sendCancel(request, into: &actions) }
                dropOurs(request, .connectionClosed(closure), into: &actions)
            }
            requestGrants(into: &actions)
            finishClosing(id, at: now, into: &actions)
        case .closing, .abandoned:
            break
        }
    }

    /// Sends `close` once nothing is left to send on the connection.
    mutating func finishClosing(_ id: SessionConnectionID, at now: Duration, into actions: inout [SessionAction]) {
        guard closingCount > 0, let index = connections.index(forKey: id),
            case .closing(let closure, let until) = connections.values[index].phase,
            connections.values[index].incoming.isEmpty || now >= until
        else { return }
        send(SessionFrame(.close(closure), connection: id), into: &actions)
        remove(id, requests: .connectionClosed(closure), into: &actions)
        connectionWasRemoved(at: now, into: &actions)
    }
}
