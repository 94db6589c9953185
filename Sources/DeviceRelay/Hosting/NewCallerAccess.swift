// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What new endpoints, which nobody has approved, may do with an app.
public enum NewCallerAccess: String, Hashable, Sendable, CaseIterable {
    /// Nothing.
    case nothing
    /// Launch http and https URIs of the schemes that the app declares.
    case webPages
    /// Everything that known endpoints may do, as soon as they join the account. This was the behaviour of the original. The relay, and
    /// a thief of a join link or of a sign-in of the account, can then launch everything on this app and call all its services.
    case everything
}
