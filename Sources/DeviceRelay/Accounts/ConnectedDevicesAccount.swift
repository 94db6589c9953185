// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An account of the platform: a user at a relay. The app chooses its id; the access tokens determine the relay's account.
public struct ConnectedDevicesAccount: Hashable, Sendable, Identifiable, Codable {
    /// The app's id of the account, for example the subject at its identity provider. It must be permanent and not empty.
    public let id: String

    /// Creates an account from the app's id.
    public init(id: String) {
        self.id = id
    }

    /// The account without a user and without a relay. Its devices are those that this one was paired with, and they meet on a local network
    /// only. Its id is reserved.
    public static let anonymous = ConnectedDevicesAccount(id: AnonymousAccount.id)
}
