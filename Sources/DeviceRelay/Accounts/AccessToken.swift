// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Proves to a relay that its bearer acts for an account: an OAuth 2.0 access token.
public struct AccessToken: Hashable, Sendable {
    /// The token as the issuer wrote it. It must not reach a log.
    public let value: String

    /// A token as the issuer wrote it.
    public init(_ value: String) { self.value = value }
}

extension AccessToken: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Hides the token.
    public var description: String { "(access token)" }
    /// Hides the token.
    public var debugDescription: String { description }
    /// Shows nothing of the token.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
