// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A name and a secret from HTTP Basic authentication, as OAuth encodes them (RFC 6749 §2.3.1).
package struct BasicCredentials: Sendable {
    package let name: String
    package let secret: Secret<String>

    /// - Parameter authorization: The values of the `Authorization` header.
    /// - Returns: `nil` if there is not exactly one value, or it is not Basic.
    package init?(authorization: [String]) {
        let parts = (authorization.first ?? "").split(separator: " ", maxSplits: 1)
        guard authorization.count == 1, parts.count == 2, parts[0].lowercased() == "basic", let bytes = Base64.standard.decode(parts[1])
        else { return nil }
        let halves = bytes.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2, let name = FormCoding.decode(halves[0]), let secret = FormCoding.decode(halves[1]) else { return nil }
        self.name = name
        self.secret = Secret(secret)
    }
}
