// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The account that a sign-in or a join link leads to, before this device is in it. A sign-in in a browser may be finished by another person
/// than the one at this device, and a link may come from any account.
public struct AccountToJoin: Hashable, Sendable {
    /// The app's id of the account.
    public let accountID: String
    /// The account's name at the relay, as the relay states it, with at most 64 characters and without control characters; `nil` if it has
    /// none.
    public let name: String?
}
