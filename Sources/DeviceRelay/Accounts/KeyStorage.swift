// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import RelayStorage

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

/// The storage of the private keys of a platform. Each account at a relay has an endpoint with an identity key, a link key, and agreement keys,
/// which are numbered from 1. Keys are created here and need not leave it, so that a Secure Enclave can hold them.
///
/// A storage belongs to one storage directory: at `start` the platform destroys the keys of endpoints that are not in the directory, as after
/// a reinstallation on a system that kept the keys. Several processes may read keys at the same time; one at a time changes them.
///
/// An error ends the call of the platform with the code `storageFailed`. Its description is shown to people, so it must contain no secret.
public protocol KeyStorage: Sendable {
    /// The identity key of an endpoint; `nil` if it does not exist.
    /// - Parameter endpoint: A name of the endpoint in storages: 52 lower-case letters and digits. It is not the `EndpointID`, which follows
    ///   from the key.
    func identityKey(of endpoint: String) throws -> (any IdentityKey)?
    /// Creates the identity key of an endpoint, and replaces an existing one.
    func makeIdentityKey(of endpoint: String) throws -> any IdentityKey
    /// An agreement key of an endpoint; `nil` if it does not exist.
    func agreementKey(_ number: Int, of endpoint: String) throws -> (any AgreementKey)?
    /// Creates an agreement key of an endpoint, and replaces an existing one.
    func makeAgreementKey(_ number: Int, of endpoint: String) throws -> any AgreementKey
    /// Destroys an agreement key of an endpoint, if it exists.
    func destroyAgreementKey(_ number: Int, of endpoint: String) throws
    /// The link key of an endpoint; `nil` if it does not exist.
    func linkKey(of endpoint: String) throws -> (any LinkKey)?
    /// Creates the link key of an endpoint, and replaces an existing one.
    func makeLinkKey(of endpoint: String) throws -> any LinkKey
    /// Destroys all keys of an endpoint.
    func destroyKeys(of endpoint: String) throws
    /// The names of the endpoints that have keys.
    func endpoints() throws -> [String]
}

extension StorageError {
    /// Calls a key storage, which may throw anything.
    static func ofKeys<Result>(in path: String, _ body: () throws -> Result) throws(StorageError) -> Result {
        do {
            return try body()
        } catch let error as StorageError {
            throw error
        } catch {
            throw StorageError(.keyStorage("\(error)"), path: path)
        }
    }
}
