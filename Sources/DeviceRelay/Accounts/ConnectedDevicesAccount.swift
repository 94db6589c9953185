// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An account of the platform: a person at a relay. The app names it; which account of the relay it is, its access tokens say.
public struct ConnectedDevicesAccount: Hashable, Sendable, Identifiable, Codable {
    /// The app's own name for it, for example the subject of its identity provider. Anything but the empty text, and always the same.
    public let id: String

    /// The account that the app knows by this id.
    public init(id: String) {
        self.id = id
    }
}
