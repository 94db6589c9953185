// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What is stored of an account.
package struct AccountRow: Hashable, Sendable {
    package var id: AccountID
    /// Unique; `nil` if the account has no name.
    package var name: String?
    package var isDisabled: Bool
    /// Milliseconds since 1970.
    package var created: Int64
    /// In the order of their issuers and subjects.
    package var identities: [Identity]
    /// How many endpoints it has.
    package var endpoints: Int

    package init(id: AccountID, name: String?, isDisabled: Bool, created: Int64, identities: [Identity], endpoints: Int) {
        self.id = id
        self.name = name
        self.isDisabled = isDisabled
        self.created = created
        self.identities = identities
        self.endpoints = endpoints
    }
}

/// Another account has the name.
package struct AccountNameTaken: Error, Hashable {}
