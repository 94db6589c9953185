// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol
import RelayPush
import RelayServer
import Synchronization

/// The issuers that the relay trusts now, and the verifier of their tokens. The operator may change the other issuers while the relay
/// runs; the embedded one stays as it was at the start.
final class TrustedIssuers: TokenVerifying {
    private struct State {
        var verifier: TokenVerifier
        var others: [IssuerSettings]
    }

    private let embedded: TrustedIssuer?
    private let now: @Sendable () -> Milliseconds
    private let state: Mutex<State>

    /// - Parameter embedded: `nil` if it is not trusted.
    init(
        embedded: TrustedIssuer?,
        others: [IssuerSettings],
        now: @escaping @Sendable () -> Milliseconds,
        makeVerifier: ([TrustedIssuer]) -> TokenVerifier
    ) {
        self.embedded = embedded
        self.now = now
        let verifier = makeVerifier(
            (embedded.map { [$0] } ?? []) + others.map { $0.trusted(now: now) }
        )
        self.state = Mutex(State(verifier: verifier, others: others))
    }

    var verifier: TokenVerifier { state.withLock(\.verifier) }
    /// The URLs of the issuers beside the embedded one.
    var others: [String] { state.withLock { $0.others.map(\.url.description) } }

    /// - Parameter own: The URLs of the embedded issuer.
    func accepted(own: [String]) -> AcceptedIssuers {
        let others = state.withLock(\.others)
        return AcceptedIssuers(
            (embedded == nil ? [] : own) + others.map(\.url.description),
            withoutScopes: others.filter { !$0.needsScopes }.map(\.url.description)
        )
    }

    /// Trusts these issuers from now on. Channels that are open stay so until their tokens expire.
    func replace(others: [IssuerSettings]) {
        let issuers = (embedded.map { [$0] } ?? []) + others.map { $0.trusted(now: now) }
        state.withLock { $0 = State(verifier: $0.verifier.trusting(issuers), others: others) }
    }

    /// Rejects the tokens of keys that the embedded issuer has lost since the last call, here or at another node.
    func forgetKeys(removedBy issuer: Issuer) async throws {
        let removed = try await issuer.removedKeys()
        if !removed.isEmpty { await verifier.forget(removed, of: Composition.issuerKey) }
    }

    func verify(
        token: String,
        endpointKey: SigningPublicKey,
        address: String,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    ) {
        verifier.verify(token: token, endpointKey: endpointKey, address: address, completion: completion)
    }

    func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver {
        verifier.follow(login, revoked: revoked)
    }
}
