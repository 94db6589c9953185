// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension SessionHandler {
    /// Actions of requests, responses and credits are collected and performed together. Before any other command all pending actions are
    /// performed.
    func perform(_ command: SessionLink.Command) {
        switch command {
        case .request(let message, let id, let token, let timeout, let continuation):
            sendRequest(message, on: id, token, timeout: timeout, continuation)
        case .respond(let request, let message, let place, let continuation): respond(to: request, message, place, continuation)
        case .consumed(let receipt): consumed(receipt)
        case .other(let body):
            performActions()
            body(self)
        }
    }

    // MARK: The endpoint's budget

    func reserve(_ bytes: Int, for kind: SessionFrame.MessageKind) {
        let claim = memory[arriving: kind].take(bytes) { [link] in
            // If the session has ended, the state machine returns the bytes.
            link?.enqueue { handler in
                handler.claims[kind] = nil
                handler.change { $0.reserved(for: kind, at: $1, into: &$2) }
            }
        }
        claims[kind] = claim
        if claim == nil { change { $0.reserved(for: kind, at: $1, into: &$2) } }
    }

    // MARK: The end

    func ended(_ end: SessionEnd) {
        link?.end.settle(end)
        for (kind, claim) in claims { memory[arriving: kind].cancel(claim) }
        claims = [:]
        pending.trim(keepsStep: false)
        close()
    }

    /// Closes all connections and operations, and notifies the peer.
    func shutDown(_ reason: String) {
        isShuttingDown = true
        for task in serving.values { task.cancel() }
        change { $0.drain(into: &$2) }
        for key in asks.requests where key.number == 0 { change { $0.closeConnection(key.connection, at: $1, into: &$2) } }
        for id in inboxes.keys.sorted() { close(id, SessionClosure(.cancelled, reason)) }
        asking?.close()
        guard stream != nil else { return change { machine, _, actions in machine.connectionLost(into: &actions) } }
        closeSoon()
    }

    var inventory: [String: Int] {
        let counts = [
            "asks": asks.count, "tokens": asks.tokenCount, "connections": inboxes.count + machine.connectionCount,
            "exchanges": exchanges.count, "responses": responses.count, "services": serving.count, "bytes": machine.heldBytes,
            "claims": claims.count, "unsent": link?.unsentBytes ?? 0,
        ]
        return counts.filter { $0.value > 0 }
    }

    // MARK: Pending operations

    /// The maximum timeout of an operation. Longer timeouts are shortened.
    private static let maximumWait = Duration.seconds(30 * 86_400)

    /// The key of an opening connection. No request has number 0.
    static func key(of id: SessionConnectionID) -> SessionRequestID { SessionRequestID(connection: id, number: 0) }

    func addAsk(_ key: SessionRequestID, _ ask: SessionAsk, timeout: Duration) {
        asks.insert(ask, for: key, until: now + min(max(timeout, .zero), Self.maximumWait))
    }

    /// Gives up an operation whose task no longer waits.
    func giveUp(_ token: UInt64, _ reason: AppServiceError.Code) {
        guard let key = asks.giveUp(token, reason) else { return }
        if key.number == 0 {
            change { $0.closeConnection(key.connection, at: $1, into: &$2) }
        } else {
            change { machine, _, actions in machine.cancelRequest(key, into: &actions) }
        }
    }
}
