// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol
import RelayServer

/// Ends logins at the embedded issuer. The relay cannot end logins of other issuers; there it rejects the endpoint id.
struct IssuerLogins: LoginEnding {
    let issuer: Issuer

    func endLogins(keyThumbprint: String, login: Login?) async throws {
        let session = login.flatMap { $0.issuer == Composition.issuerKey ? $0.session : nil }
        try await issuer.endLogins(boundTo: keyThumbprint, session: session)
    }
}
