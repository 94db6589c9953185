// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Ends the logins of revoked endpoints, so that a revoked device cannot use them again.
package protocol LoginEnding: Sendable {
    /// Ends the logins that are bound to a key, and one more login. Returns once that is durable. Repeated calls are allowed.
    /// - Parameters:
    ///   - keyThumbprint: the JWK thumbprint of the endpoint's identity key.
    ///   - login: the login of the token in the endpoint's last hello.
    func endLogins(keyThumbprint: String, login: Login?) async throws
}
