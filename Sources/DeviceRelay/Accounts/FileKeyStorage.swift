// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
package import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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

    package func identityKey(of scope: AccountScope) throws(StorageError) -> (any IdentityKey)? {
        try read(.identity, of: scope) { try P256SigningKey(rawRepresentation: $0) }
    }

    package func makeIdentityKey(of scope: AccountScope) throws(StorageError) -> any IdentityKey {
        let key = P256SigningKey()
        try write(key.rawRepresentation, as: .identity, of: scope)
        return key
    }

    package func agreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> (any AgreementKey)? {
        try read(.agreement(number), of: scope) { try P256AgreementKey(rawRepresentation: $0) }
    }

    package func makeAgreementKey(_ number: Int, of scope: AccountScope) throws(StorageError) -> any AgreementKey {
        let key = P256AgreementKey()
        try write(key.rawRepresentation, as: .agreement(number), of: scope)
        return key
    }

    package func destroy(_ name: EndpointKeyName, of scope: AccountScope) throws(StorageError) {
        try PrivateFile.delete(path(of: name, scope))
    }

    package func destroyAll(ofScopeNamed name: String) throws(StorageError) {
        let folder = "\(directory)/\(name)"
        for file in try PrivateDirectory.names(in: folder) { try PrivateFile.delete("\(folder)/\(file)") }
        guard rmdir(folder) == 0 || errno == ENOENT else { throw StorageError(system: errno, path: folder) }
    }

    package func scopeNames() throws(StorageError) -> [String] { try PrivateDirectory.names(in: directory) }

    private func path(of name: EndpointKeyName, _ scope: AccountScope) -> String {
        switch name {
        case .identity: "\(directory)/\(scope.name)/identity"
        case .agreement(let number): "\(directory)/\(scope.name)/agreement-\(number)"
        }
    }

    private func read<Key>(
        _ name: EndpointKeyName,
        of scope: AccountScope,
        _ make: ([UInt8]) throws -> Key
    ) throws(StorageError) -> Key? {
        let path = path(of: name, scope)
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let key = try? make(bytes) else { throw StorageError(.damaged, path: path) }
        return key
    }

    private func write(_ bytes: [UInt8], as name: EndpointKeyName, of scope: AccountScope) throws(StorageError) {
        try PrivateDirectory.make("\(directory)/\(scope.name)")
        try PrivateFile.replace(path(of: name, scope), with: bytes)
    }
}
