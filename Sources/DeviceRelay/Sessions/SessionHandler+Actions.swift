// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension SessionHandler {
    /// What the machine says to many calls is done at once; everything else finds what was before it done.
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
        let claim = memory?[arriving: kind].take(bytes) { [link] in
            // A session that is over gives the bytes back.
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
        for (kind, claim) in claims { memory?[arriving: kind].cancel(claim) }
        claims = [:]
        pending?.trim(keepsStep: false)
        close()
    }

    /// Gives everything up, and tells the peer.
    func shutDown() {
        for task in serving.values { task.cancel() }
        change { $0.drain(into: &$2) }
        for key in asks.requests where key.number == 0 { change { $0.closeConnection(key.connection, at: $1, into: &$2) } }
        for id in inboxes.keys.sorted() { close(id, SessionClosure(.cancelled, "the app is going away")) }
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

    // MARK: Asks

    /// Nobody waits longer, whatever is asked for.
    private static let maximumWait = Duration.seconds(30 * 86_400)

    /// Connections are asked for under the number that no request has.
    static func key(of id: SessionConnectionID) -> SessionRequestID { SessionRequestID(connection: id, number: 0) }

    func addAsk(_ key: SessionRequestID, _ ask: SessionAsk, timeout: Duration) {
        asks.insert(ask, for: key, until: now + min(max(timeout, .zero), Self.maximumWait))
    }

    /// The task that asked does not wait any longer.
    func giveUp(_ token: UInt64, _ reason: AppServiceError.Code) {
        guard let key = asks.giveUp(token, reason) else { return }
        if key.number == 0 {
            change { $0.closeConnection(key.connection, at: $1, into: &$2) }
        } else {
            change { machine, _, actions in machine.cancelRequest(key, into: &actions) }
        }
    }
}
