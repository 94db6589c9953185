// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An OAuth 2.0 access token. It authorises its bearer to act for an account at a relay.
public struct AccessToken: Hashable, Sendable {
    /// The token as the issuer wrote it. Never log it.
    public let value: String

    /// Creates a token from the issuer's text.
    public init(_ value: String) { self.value = value }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Hides the token.
    public var description: String { "(access token)" }
    /// Hides the token.
    public var debugDescription: String { description }
    /// A mirror without the token.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
