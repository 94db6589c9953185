// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Names an account for people.
enum AccountText {
    /// Such as `the account zoe at https://relay.example`; without a name only the relay.
    static func place(_ name: String?, at relay: String) -> String { name.map { "the account \($0) at \(relay)" } ?? relay }
}
