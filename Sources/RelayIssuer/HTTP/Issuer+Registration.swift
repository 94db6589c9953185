// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Registration of native public clients (RFC 7591).
extension Issuer {
    func register(_ body: [UInt8], from networks: ClientNetworks) async throws(OAuthError) -> RegistrationResponse {
        guard let json = try? JSONValue(parsing: body) else { throw OAuthError(.invalidClientMetadata, "the request is not JSON") }
        let now = now()
        let client = try RegisteredClient(registering: json, now: now)
        if let wait = bounds.withLock({ $0.registrations.add(networks, now: now) }) {
            throw OAuthError(.temporarilyUnavailable, "too many registrations; wait as Retry-After says", status: 429, retryAfter: wait)
        }
        let hasRoom = try await answering { () async throws(IssuerError) in
            try await store.write { records in
                try records.forget(before: now)
                guard try records.makeRoomForClient(now: now) else { return false }
                try records.insert(client)
                return true
            }
        }
        guard hasRoom else {
            throw OAuthError(.temporarilyUnavailable, "too many clients are registered; try again later", status: 503, retryAfter: 600_000)
        }
        logger.debug("registered a client")
        return RegistrationResponse(client)
    }
}
