// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
package import RelayStorage

/// An account at a relay. Each scope has one endpoint, and all stored data belongs to one scope.
package struct AccountScope: Codable, Hashable, Sendable {
    package let relay: RelayID
    /// The app's id of the account.
    package let accountID: String

    package init(relay: RelayID, accountID: String) {
        self.relay = relay
        self.accountID = accountID
    }

    /// A name for files and keychain entries. It is a digest, because the account's id may contain any character.
    package var name: String { Digest256(hashing: Array("\(relay) \(accountID)".utf8)).description }
}

/// Identifies a key of an endpoint.
package enum EndpointKeyName: Hashable, Sendable {
    case identity
    /// Agreement keys are numbered from 1.
    case agreement(Int)
}

/// The storage of private keys. Keys are created here by name and need not leave it, so a Secure Enclave can implement it.
package protocol KeyStorage: Sendable {
    /// `nil` if the key does not exist.
    func identityKey(of scope: AccountScope) throws(StorageError) -> (any IdentityKey)?
    /// Creates a key, and replaces an existing one.
    func makeIdentityKey(of scope: AccountScope) throws(StorageError) -> any IdentityKey
    /// `nil` if the key does not exist.
    func agreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> (any AgreementKey)?
    /// Creates a key, and replaces an existing one.
    func makeAgreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> any AgreementKey
    /// Destroys a key.
    func destroy(_ name: EndpointKeyName, of scope: AccountScope) throws(StorageError)
    /// Destroys all keys of the scope with this file name.
    func destroyAll(ofScopeNamed name: String) throws(StorageError)
    /// The names of all scopes with keys.
    func scopeNames() throws(StorageError) -> [String]
}
