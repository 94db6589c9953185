// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An access token or signed assertion for a provider.
package struct ProviderToken: Hashable, Sendable {
    package let text: Secret<String>
    package let made: Milliseconds
    /// The time at which it is replaced.
    package let renewal: Milliseconds

    package init(text: Secret<String>, made: Milliseconds, renewal: Milliseconds) {
        (self.text, self.made, self.renewal) = (text, made, renewal)
    }
}

/// Where the nodes of a relay keep the token of one credential, so that all use the same one: Apple rejects tokens of one key that are made
/// too often. The functions throw, within seconds, if nothing can be read or written now.
package protocol SharedToken: Sendable {
    func stored() async throws -> StoredToken

    /// Stores a token, unless another node has replaced that version meanwhile.
    /// - Returns: The token that is stored then.
    func replace(_ version: Int64, by token: ProviderToken) async throws -> ProviderToken
}

package struct StoredToken: Hashable, Sendable {
    /// It grows with each change. 0 if nothing is stored.
    package let version: Int64
    /// `nil` if nothing is stored, or it cannot be read.
    package let token: ProviderToken?

    package init(version: Int64 = 0, token: ProviderToken? = nil) { (self.version, self.token) = (version, token) }
}
