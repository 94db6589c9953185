// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Redeems authorization codes, which users allow at the pages.
extension Issuer {
    func redeem(
        _ code: Digest256,
        redirect: String,
        verifier: Secret<String>,
        _ request: TokenRequest,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> GrantOutcome {
        guard let stored = try records.authorizationCode(code) else { return .refused(TokenRequest.unknownAuthorizationCode) }
        switch stored.decision(client: request.client, redirect: redirect, verifier: verifier, key: key, now: now) {
        case .accept: break
        case .refuse: return .refused(TokenRequest.unknownAuthorizationCode)
        case .revoke(let id):
            guard let family = try records.family(id), family.revoked == nil else { return .refused(TokenRequest.unknownAuthorizationCode) }
            try records.note(.codeReplayed, of: family.subject, RegisteredClient.shown(family.client), now: now)
            return .revoked(
                TokenRequest.unknownAuthorizationCode,
                try revoke(family, now: now, in: records),
                because: "its authorization code was used again"
            )
        }
        // RFC 6749 §4.1.3 defines no `scope` here. A client that sends one gets no more than the user allowed.
        let scopes = request.scopes ?? stored.scopes
        guard scopes.isSubset(of: stored.scopes) else {
            return .refused(OAuthError(.invalidScope, "the user allowed \(stored.scopes) only"))
        }
        let outcome = try begin(
            subject: stored.subject,
            request,
            scopes: scopes,
            device: RegisteredClient(id: stored.client)?.name ?? "",
            event: .appSignedIn,
            key: key,
            proof: proof,
            now: now,
            in: records
        )
        if case .granted(let granted) = outcome {
            try records.redeem(authorizationCode: code, .init(key: key, family: granted.family.id))
        }
        return outcome
    }
}
