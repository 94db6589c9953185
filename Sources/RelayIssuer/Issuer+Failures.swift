// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Rate limits of failed requests.
extension Issuer {
    /// Runs a request. Only failures count against its networks. Above the limit, a failed request gets 429 instead of its
    /// error; a valid request is always served.
    func serve<Result>(_ client: ClientNetworks, _ body: () async throws(OAuthError) -> Result) async throws(OAuthError) -> Result {
        do throws(OAuthError) {
            return try await body()
        } catch {
            // A device that polls before its user has decided does not count as a failure.
            guard (400..<500).contains(error.status), error.status != 429, error.code != .authorizationPending else { throw error }
            guard let wait = countFailure(client) else { throw error }
            throw Issuer.tooManyFailures(wait)
        }
    }

    /// Counts a failure of a client.
    /// - Returns: The time to wait if there were too many failures.
    func countFailure(_ client: ClientNetworks) -> Milliseconds? {
        let now = now()
        return bounds.withLock { $0.failures.add(client, now: now) }
    }

    static func tooManyFailures(_ wait: Milliseconds) -> OAuthError {
        OAuthError(.temporarilyUnavailable, "too many failed requests; wait as Retry-After says", status: 429, retryAfter: wait)
    }

    /// Looks a grant up by its digest before more expensive checks, such as a proof's signature.
    func checkKnown(_ grant: TokenRequest.Grant) async throws(OAuthError) {
        let unknown = try await answering { () async throws(IssuerError) in
            try await store.read { records -> OAuthError? in
                switch grant {
                case .invitation(let code): try records.invitation(code.digest) == nil ? TokenRequest.unknownCode : nil
                case .device(let code): try records.deviceAuthorization(code) == nil ? TokenRequest.unknownDeviceCode : nil
                case .code(let code, _, _): try records.authorizationCode(code) == nil ? TokenRequest.unknownAuthorizationCode : nil
                case .refresh(let token): try records.family(token.family) == nil ? TokenRequest.unknownToken : nil
                }
            }
        }
        if let unknown { throw unknown }
    }
}
