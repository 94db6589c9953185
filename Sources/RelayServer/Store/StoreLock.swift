// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayStorage

/// Locks a store's directory, so that two relays cannot use one database.
package struct StoreLock: Sendable {
    package let directory: String
    private let lock: FileLock

    /// Creates the directory, with mode 0700, if it does not exist.
    package init(directory: String) throws(StoreError) {
        let lock: FileLock?
        do throws(StorageError) {
            try PrivateDirectory.make(directory)
            lock = try FileLock(tryLocking: directory + "/relay.lock")
        } catch {
            throw .directoryNotWritable(directory)
        }
        guard let lock else { throw .inUse(directory) }
        self.directory = directory
        self.lock = lock
    }

    /// Releases the lock, as the end of the last copy does.
    package func release() { lock.release() }
}
