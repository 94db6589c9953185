// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Why a request is not served. Thrown in a transaction it undoes what that wrote.
struct Refusal: Error, Hashable {
    var code: ControlErrorCode
    var message: String
    var limit: ExceededLimit?
    var retryAfter: Milliseconds?

    init(_ code: ControlErrorCode, _ message: String, limit: ExceededLimit? = nil, retryAfter: Milliseconds? = nil) {
        self.code = code
        self.message = message
        self.limit = limit
        self.retryAfter = retryAfter
    }

    init(exceeding exceeded: LimitExceeded) {
        self.init(.limitExceeded, exceeded.description, limit: ExceededLimit(exceeded))
    }

    init(_ error: RecordError) {
        switch error {
        case .badSignature, .wrongAccount, .wrongEndpoint, .notPartOfSystem:
            self.init(.signatureInvalid, "it is not signed by this endpoint for this account")
        case .outdated, .versionReused: self = .outdated
        case .limitExceeded(let exceeded): self.init(exceeding: exceeded)
        case .malformed: self.init(.malformed, "it cannot be read")
        case .invalidField(let field): self.init(.malformed, "\(field) holds what it may not")
        }
    }

    /// What a failed transaction means for whoever asked.
    init(_ error: any Error) {
        self = error as? Refusal ?? Refusal(.unavailable, "the relay cannot store anything now", retryAfter: 5_000)
    }

    static let outdated = Refusal(.recordOutdated, "the relay has this version with other content, or a newer one")

    func failure(_ ref: RequestRef) -> RelayMessage.Failure {
        RelayMessage.Failure(ref: ref, code: code, message: message, limit: limit, retryAfter: retryAfter)
    }
}

extension RelayCore {
    /// A message on a connected channel, in order. Answers and events go through the peer.
    /// - Returns: whether the next may come; if not, the peer is told when it may.
    package func receive(_ message: EndpointMessage, on id: ChannelID) -> Bool {
        guard let channel = channel(id) else { return true }
        serve(message, on: channel)
        return mayRead(channel)
    }

    private func serve(_ message: EndpointMessage, on channel: Channel) {
        let id = channel.id
        if channel.role == .client, message.isForHosts {
            guard let ref = message.ref else { return }
            return refuse(Refusal(.notAuthorized, "only a host channel may do that"), ref, on: id)
        }
        switch message {
        case .publish(let request): publish(request, on: channel)
        case .unpublish(let request): unpublish(request, on: channel)
        case .endpointUpdate(let request): update(request, on: channel)
        case .endpointApprove(let request): approve(request, on: channel)
        case .endpointRevoke(let request): revoke(request, on: channel)
        case .leaving(let request): leave(request, on: channel)
        case .watch(let request): watch(request, on: channel)
        case .unwatch(let request): unwatch(request, on: channel)
        case .commandSend(let request): send(request, on: channel)
        case .commandCancel(let request): cancel(request, on: channel)
        case .commandReceived(let statement): received(statement, on: channel)
        case .commandResult(let request): ended(request, on: channel)
        case .commandAcknowledge(let statement): acknowledge(statement, on: channel)
        case .tunnelOpen(let request): openTunnel(request, on: channel)
        case .tunnelDecline(let statement): decline(statement, on: channel)
        case .notificationsRegister(let request): refuse(Refusal(.unsupported, "this relay sends no wakes"), request.ref, on: id)
        // The transport's own.
        case .hello, .authRefresh: break
        }
    }

    func refuse(_ refusal: Refusal, _ ref: RequestRef, on channel: ChannelID) {
        change { $0.send(.failure(refusal.failure(ref)), to: channel) }
    }

    /// Serves a request by a transaction whose success is `ok`.
    func serve<Value: Sendable>(
        _ ref: RequestRef,
        on channel: Channel,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> Value,
        then completion: @escaping @Sendable (inout State, Value) -> Void
    ) {
        transact(on: channel, body) { state, result in
            switch result {
            case .success(let value):
                state.send(.ok(.init(ref: ref)), to: channel.id)
                completion(&state, value)
            case .failure(let error):
                state.send(.failure(Refusal(error).failure(ref)), to: channel.id)
            }
        }
    }
}

extension EndpointMessage {
    /// Clients watch, send and dial; what an endpoint is and takes, its host says.
    fileprivate var isForHosts: Bool {
        switch self {
        case .publish, .unpublish, .endpointUpdate, .leaving, .notificationsRegister, .commandReceived, .commandResult: true
        case .hello, .endpointApprove, .endpointRevoke, .watch, .unwatch, .commandSend, .commandCancel, .commandAcknowledge,
            .tunnelOpen, .tunnelDecline, .authRefresh:
            false
        }
    }
}
