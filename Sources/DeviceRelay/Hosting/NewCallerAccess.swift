// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What new endpoints, which are not approved, may do with an app.
public enum NewCallerAccess: String, Hashable, Sendable, CaseIterable {
    /// Nothing.
    case nothing
    /// Launch pages of the Internet: `http` and `https` URIs, if the app declares the scheme, whose host is certainly not of the local
    /// network. All new endpoints together may launch six per minute on a device.
    case webPages
    /// Everything that known endpoints may do, as soon as they join the account. This was the behaviour of the original. The relay, and
    /// a thief of a join link or of a sign-in of the account, can then launch everything on this app and call all its services.
    case everything
}

/// What new endpoints may do with an app that is open to them for web pages.
package struct NewCallerBounds: Sendable {
    /// The launches of all new endpoints together, per minute. Default: 6.
    package var launchesPerMinute = 6
    /// Whether the app itself decides about pages of the local network. Default: false, and they are declined.
    package var decidesOnLocalPages = false

    package init() {}
}
