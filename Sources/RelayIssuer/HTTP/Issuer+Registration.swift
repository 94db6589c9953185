// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Registration of native public clients (RFC 7591).
extension Issuer {
    func register(_ body: [UInt8]) throws(OAuthError) -> RegistrationResponse {
        guard let json = try? JSONValue(parsing: body) else { throw OAuthError(.invalidClientMetadata, "the request is not JSON") }
        let request = try RegistrationRequest(json: json)
        let client = RegisteredClient(name: request.name, redirects: request.redirects, by: master.clientKey)
        return RegistrationResponse(request, client, now: now())
    }
}
