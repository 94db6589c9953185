// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Stores each key as 32 bytes in a file of mode 0600, for systems without a secret store.
package struct FileKeyStorage: KeyStorage {
    private let directory: String

    package init(directory: String) throws(StorageError) {
        try PrivateDirectory.make(directory)
        self.directory = directory
    }

    /// Opens an existing directory for reading.
    package init(reading directory: String) { self.directory = directory }

    package func identityKey(of endpoint: String) throws(StorageError) -> (any IdentityKey)? {
        try read("identity", of: endpoint) { try P256SigningKey(rawRepresentation: $0) }
    }

    package func makeIdentityKey(of endpoint: String) throws(StorageError) -> any IdentityKey {
        let key = P256SigningKey()
        try write(key.rawRepresentation, as: "identity", of: endpoint)
        return key
    }

    package func agreementKey(_ number: Int, of endpoint: String) throws(StorageError) -> (any AgreementKey)? {
        try read("agreement-\(number)", of: endpoint) { try P256AgreementKey(rawRepresentation: $0) }
    }

    package func makeAgreementKey(_ number: Int, of endpoint: String) throws(StorageError) -> any AgreementKey {
        let key = P256AgreementKey()
        try write(key.rawRepresentation, as: "agreement-\(number)", of: endpoint)
        return key
    }

    package func destroyAgreementKey(_ number: Int, of endpoint: String) throws(StorageError) {
        try PrivateFile.delete("\(directory)/\(endpoint)/agreement-\(number)")
    }

    package func linkKey(of endpoint: String) throws(StorageError) -> (any LinkKey)? {
        try read("link", of: endpoint) { try P256LinkKey(rawRepresentation: $0) }
    }

    package func makeLinkKey(of endpoint: String) throws(StorageError) -> any LinkKey {
        let key = P256LinkKey()
        try write(key.rawRepresentation, as: "link", of: endpoint)
        return key
    }

    package func destroyKeys(of endpoint: String) throws(StorageError) {
        let folder = "\(directory)/\(endpoint)"
        for file in try PrivateDirectory.names(in: folder) { try PrivateFile.delete("\(folder)/\(file)") }
        guard rmdir(folder) == 0 || errno == ENOENT else { throw StorageError(system: errno, path: folder) }
    }

    package func endpoints() throws(StorageError) -> [String] { try PrivateDirectory.names(in: directory) }

    private func read<Key>(
        _ name: String,
        of endpoint: String,
        _ make: ([UInt8]) throws -> Key
    ) throws(StorageError) -> Key? {
        let path = "\(directory)/\(endpoint)/\(name)"
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let key = try? make(bytes) else { throw StorageError(.damaged, path: path) }
        return key
    }

    private func write(_ bytes: [UInt8], as name: String, of endpoint: String) throws(StorageError) {
        try PrivateDirectory.make("\(directory)/\(endpoint)")
        try PrivateFile.replace("\(directory)/\(endpoint)/\(name)", with: bytes)
    }
}
