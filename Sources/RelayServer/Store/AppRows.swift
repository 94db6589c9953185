// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The rows of app identities and their push credentials. They belong to the relay and to no account.
package protocol AppRows {
    /// Ordered by id.
    func appIdentities() throws -> [AppIdentity]
    func appIdentity(_ id: String) throws -> AppIdentity?
    /// Adds or replaces the identity with its apps.
    func put(_ identity: AppIdentity) throws
    /// Removes the identity with its apps and credentials.
    func removeAppIdentity(_ id: String) throws

    /// The credentials of all identities, oldest first.
    func credentials() throws -> [CredentialRow]
    /// Adds credentials to a stored identity.
    func add(_ credential: CredentialRow) throws
    func removeCredential(_ id: String) throws
}
