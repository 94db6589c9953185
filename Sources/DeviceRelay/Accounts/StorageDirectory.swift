// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The directory of all data of a platform, for its user only:
///
/// ```
/// host.lock                         held by the process that hosts
/// storage.lock                      held briefly for each change
/// keys/<scope>/identity, agreement-1 …
/// accounts/<scope>/account.cbor, journal.sqlite, tokens, tokens.lock
/// ```
package struct StorageDirectory: Sendable {
    package let path: String
    package let systemKey: SystemKeyFile
    private let keys: any KeyStorage

    /// Opens the directory, or creates it.
    /// - Parameter keys: The storage of the endpoints' keys; by default the directory itself.
    package init(
        path: String,
        systemKey: SystemKeyFile = .shared,
        keys: (any KeyStorage)? = nil
    ) throws(StorageError) {
        self.path = path
        self.systemKey = systemKey
        try PrivateDirectory.makeAll(path)
        try PrivateDirectory.check(path)
        try PrivateDirectory.make("\(path)/accounts")
        if let keys { self.keys = keys } else { self.keys = try FileKeyStorage(directory: "\(path)/keys") }
        try discardStrayKeys()
    }

    // MARK: Accounts

    /// The accounts that have an endpoint in this directory.
    package func scopes() throws(StorageError) -> [AccountScope] { try Self.scopes(in: path) }

    static func scopes(in path: String) throws(StorageError) -> [AccountScope] {
        var scopes: [AccountScope] = []
        for name in try PrivateDirectory.names(in: "\(path)/accounts") {
            guard let facts = try AccountStorage.readFacts("\(path)/accounts/\(name)/\(AccountStorage.factsName)") else { continue }
            scopes.append(facts.scope)
        }
        return scopes
    }

    /// Opens the account's endpoint, or creates it with new keys.
    /// - Parameter now: Milliseconds since 1970, by the local clock.
    package func open(_ scope: AccountScope, now: Int64) throws(StorageError) -> AccountStorage {
        let storage = storage(of: scope)
        try FileLock.whileHolding(lockPath) { () throws(StorageError) in try storage.prepare(now: now) }
        return storage
    }

    /// Destroys the account's endpoint and its data. Its journal must not be in use.
    package func remove(_ scope: AccountScope) throws(StorageError) {
        try FileLock.whileHolding(lockPath) { () throws(StorageError) in
            // The state file is deleted first. After a crash in between, the next start discards the remaining keys.
            try PrivateFile.delete(storage(of: scope).factsPath)
            try StorageError.ofKeys(in: path) { try keys.destroyKeys(of: scope.name) }
            let folder = "\(path)/accounts/\(scope.name)"
            for name in try PrivateDirectory.names(in: folder) { try PrivateFile.delete("\(folder)/\(name)") }
            guard rmdir(folder) == 0 || errno == ENOENT else { throw StorageError(system: errno, path: folder) }
        }
    }

    private func storage(of scope: AccountScope) -> AccountStorage {
        AccountStorage(scope: scope, directory: "\(path)/accounts/\(scope.name)", lock: lockPath, keys: keys)
    }

    private var lockPath: String { "\(path)/storage.lock" }

    /// Destroys keys without a state file, as after a reinstallation on a system that kept the keys.
    private func discardStrayKeys() throws(StorageError) {
        try FileLock.whileHolding(lockPath) { () throws(StorageError) in
            for name in try StorageError.ofKeys(in: path, { try keys.endpoints() }) {
                guard try PrivateFile.contents(of: "\(path)/accounts/\(name)/\(AccountStorage.factsName)") == nil else { continue }
                try StorageError.ofKeys(in: path) { try keys.destroyKeys(of: name) }
            }
        }
    }

    // MARK: Host lock

    /// The lock of a host, for its whole life. It prevents a second host for the same endpoint.
    package struct HostLock: Sendable {
        fileprivate let lock: FileLock
    }

    /// - Throws: `endpointInUse` with the process that holds the lock.
    package func lockForHost() throws(StorageError) -> HostLock {
        let file = "\(path)/host.lock"
        guard let lock = try FileLock(tryLocking: file) else {
            throw StorageError(.endpointInUse(by: FileLock.holder(of: file)), path: path)
        }
        lock.sign("process \(getpid()) (\(ProcessInfo.processInfo.processName))")
        return HostLock(lock: lock)
    }
}
