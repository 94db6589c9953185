// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An account at a relay: what one endpoint is for. Everything that is stored belongs to one of these.
package struct AccountScope: Codable, Hashable, Sendable {
    package let relay: RelayID
    /// The app's id of the account.
    package let accountID: String

    package init(relay: RelayID, accountID: String) {
        self.relay = relay
        self.accountID = accountID
    }

    /// A name for files and for entries of a key chain. A digest, since the account's id may hold anything.
    package var name: String { Digest256(hashing: Array("\(relay) \(accountID)".utf8)).description }
}

/// Which key of an endpoint.
package enum EndpointKeyName: Hashable, Sendable {
    case identity
    /// Agreement keys are numbered from 1.
    case agreement(Int)
}

/// Where the platform keeps private keys. They are named and made here, so that they need never leave: a Secure Enclave can
/// stand behind this.
package protocol KeyStorage: Sendable {
    /// `nil` if there is no such key.
    func identityKey(of scope: AccountScope) throws(StorageError) -> (any IdentityKey)?
    /// A new key in the place of whatever was there.
    func makeIdentityKey(of scope: AccountScope) throws(StorageError) -> any IdentityKey
    /// `nil` if there is no such key.
    func agreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> (any AgreementKey)?
    /// A new key in the place of whatever was there.
    func makeAgreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> any AgreementKey
    /// Destroys a key.
    func destroy(_ name: EndpointKeyName, of scope: AccountScope) throws(StorageError)
    /// Destroys all keys of the scope with this name.
    func destroyAll(ofScopeNamed name: String) throws(StorageError)
    /// The names of the scopes that have keys here.
    func scopeNames() throws(StorageError) -> [String]
}
