// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayIssuer
import RelayProtocol
import RelayServer

/// Brings what other nodes have changed in the store into the memory of this one: revoked tokens and removed signing
/// keys within a second, and push credentials within some seconds.
struct OtherNodes: Sendable {
    /// How far each look goes back. A transaction is shorter, and the clocks of nodes are closer.
    private static let overlap: Int64 = 60_000
    /// How often revocations are looked for before credentials are.
    private static let looksBetweenCredentials = 5

    let issuer: Issuer
    let store: any RelayStore
    let tokens: TokenVerifier
    let trusted: TrustedIssuers
    let wakes: PushWakes
    let now: @Sendable () -> Milliseconds

    /// Runs until the task is cancelled. What the start has read is known.
    func run() async {
        var read = now().count
        var looks = 0
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            let time = now().count
            // After a failure, the next look goes back as far.
            guard (try? await lookForRevocations(since: Milliseconds(clamping: read - Self.overlap))) != nil else { continue }
            read = time
            // Failures are those of the store, and the next look finds the same.
            try? await trusted.forgetKeys(removedBy: issuer)
            looks += 1
            if looks % Self.looksBetweenCredentials == 0 { await wakes.reload() }
        }
    }

    private func lookForRevocations(since time: Milliseconds) async throws {
        for login in try await issuer.revokedLogins(since: time) { tokens.revoke(login) }
        try await tokens.revokeStored(in: store)
    }
}

extension TokenVerifier {
    nonisolated func revoke(_ login: RevokedLogin) {
        revoke(session: login.session, of: Composition.issuerKey, until: login.tokensEnd)
    }

    /// Revokes the single tokens that the store names.
    nonisolated func revokeStored(in store: any RelayStore) async throws {
        for token in try await store.transactGlobally({ try $0.revokedTokens() }) {
            revoke(Login(issuer: "", session: token.digest), until: Milliseconds(clamping: token.ends))
        }
    }
}
