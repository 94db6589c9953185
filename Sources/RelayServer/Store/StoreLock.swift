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

    /// What the last store in this directory has written here: the database's last mark, and the number of this very file. A copied
    /// directory has another file. `nil` if there is nothing, or nothing readable.
    package func mark() -> Int64? {
        guard let bytes = try? PrivateFile.contents(of: path) else { return nil }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { Int64($0) }
        return words.count == 2 && words[1] == lock.fileNumber ? words[0] : nil
    }

    /// A lost first write makes the next start take the database for a copy, so it waits for the disk. The text has always the same length,
    /// so that each later write covers the one before, and a power cut leaves one of them.
    package func write(mark: Int64, isFirst: Bool = false) {
        let digits = String(mark)
        lock.sign(String(repeating: "0", count: max(0, 19 - digits.utf8.count)) + digits + " \(lock.fileNumber)")
        if isFirst { lock.flush() }
    }

    private var path: String { directory + "/relay.lock" }

    /// Releases the lock, as the end of the last copy does.
    package func release() { lock.release() }
}
