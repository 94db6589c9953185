// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayTracing

extension SessionHandler {
    // MARK: Opened here

    func open(
        _ opening: SessionOpening,
        _ info: AppServiceInfo,
        _ token: UInt64,
        timeout: Duration,
        _ continuation: SessionAsk.Continuation<AppServiceConnection>
    ) {
        var failure: SessionSendError?
        change { machine, _, actions in
            do throws(SessionSendError) {
                let id = try machine.openConnection(opening, into: &actions)
                addAsk(Self.key(of: id), SessionAsk(token: token, waiter: .connection(info, opening.trace, continuation)), timeout: timeout)
            } catch {
                failure = error
            }
        }
        if let failure { continuation.resume(returning: .failure(AppServiceError(failure))) }
    }

    func openSucceeded(_ id: SessionConnectionID) {
        guard let link, case .connection(let info, let trace, let continuation) = asks.remove(Self.key(of: id))?.waiter else { return }
        let inbox = AppServiceInbox()
        inboxes[id] = inbox
        let carrier = SessionCarrier(id, link: link, inbox: inbox, isOffered: false)
        let limiter = handlerLimiters.limiter(for: info, isOffered: false)
        let connection = AppServiceConnection(info: info, carrier: carrier, inbox: inbox, limiter: limiter, trace: trace)
        continuation.resume(returning: .success(connection))
    }

    // MARK: Opened by the peer

    /// Starts a task that asks the endpoint for admission and runs the service. The task ends with the service.
    func opened(_ id: SessionConnectionID, _ opening: SessionOpening) {
        guard let link else { return }
        // Services that still run after their connection has closed count too.
        let limit = environment.limits[.connectionsPerSession]
        guard serving.count < limit else {
            let excess = LimitExceeded(limit: .connectionsPerSession, allowed: limit, requested: limit + 1)
            return refuse(id, SessionRejection(.resourceLimitsExceeded, "\(excess)"))
        }
        let inbox = AppServiceInbox()
        inboxes[id] = inbox
        offered.insert(id)
        let carrier = SessionCarrier(id, link: link, inbox: inbox, isOffered: true)
        let name = AppServiceInfo(name: opening.serviceName, appID: opening.appID)
        let limiter = handlerLimiters.limiter(for: name, isOffered: true)
        serving[id] = Task { [admit, peer] in  // Owner: the session cancels it
            switch await admit(peer, opening) {
            case .refuse(let error): carrier.finish(error)
            case .serve(let service, let info, let caller):
                let trace = opening.trace
                let connection = AppServiceConnection(info: info, carrier: carrier, inbox: inbox, limiter: limiter, trace: trace)
                await Trace.span("serve app service", .server, of: trace) { await service.serve(connection, caller) }
            }
            link.enqueue { handler in handler.serving[id] = nil }
        }
    }

    func accept(_ id: SessionConnectionID) {
        offered.remove(id)
        change { $0.accept(id, at: $1, into: &$2) }
    }

    func refuse(_ id: SessionConnectionID, _ rejection: SessionRejection) {
        offered.remove(id)
        inboxes[id] = nil
        change { $0.refuse(id, rejection, at: $1, into: &$2) }
    }

    // MARK: Both directions

    /// Handles a connection that the peer closed, or that ended with the session. The service is cancelled if it has not accepted the
    /// connection, or if the session has ended. Otherwise the service sees the closed connection and can finish its work.
    func connectionClosed(_ id: SessionConnectionID, _ end: SessionConnectionEnd) {
        inboxes.removeValue(forKey: id)?.close(AppServiceClosure(end))
        if case .closed = end, !offered.contains(id) { return }
        serving[id]?.cancel()
    }

    /// Closes a connection for the app. If the app has not accepted it, the peer receives a rejection.
    func close(_ id: SessionConnectionID, _ closure: SessionClosure) {
        offered.remove(id)
        inboxes.removeValue(forKey: id)?.close(AppServiceClosure(closure))
        change { $0.closeConnection(id, closure, at: $1, into: &$2) }
    }
}
