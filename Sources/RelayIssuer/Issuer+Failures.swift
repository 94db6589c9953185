// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Requests that fail.
extension Issuer {
    /// Does what a request asks for. Only failures count against its address. An address with too many is told to wait in place of why it
    /// failed; a valid request is served all the same, whatever else comes from its address.
    func serve<Result>(_ address: String, _ body: () async throws(OAuthError) -> Result) async throws(OAuthError) -> Result {
        do throws(OAuthError) {
            return try await body()
        } catch {
            guard (400..<500).contains(error.status), error.status != 429 else { throw error }
            let now = now()
            guard let wait = bounds.withLock({ $0.failures.add(address, now: now) }) else { throw error }
            throw OAuthError(.temporarilyUnavailable, "too many failed requests; wait as Retry-After says", status: 429, retryAfter: wait)
        }
    }

    /// Looks a grant up by its digest before anything that costs more, such as a proof's signature.
    func checkKnown(_ grant: TokenRequest.Grant) async throws(OAuthError) {
        let unknown = try await answering { () async throws(IssuerError) in
            try await store.read { records -> OAuthError? in
                switch grant {
                case .invitation(let code): try records.invitation(code.digest) == nil ? TokenRequest.unknownCode : nil
                case .refresh(let token): try records.family(token.family) == nil ? TokenRequest.unknownToken : nil
                }
            }
        }
        if let unknown { throw unknown }
    }
}
