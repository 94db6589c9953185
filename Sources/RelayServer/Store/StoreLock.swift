// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Holds a store's directory, so that no two relays work on one database. The kernel gives it back when the process ends.
package final class StoreLock: Sendable {
    package let directory: String
    private let descriptor: Int32

    /// Makes the directory, for this user alone, if it is not there.
    package init(directory: String) throws(StoreError) {
        if mkdir(directory, 0o700) != 0, errno != EEXIST { throw .directoryNotWritable(directory) }
        let path = directory + "/relay.lock"
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .directoryNotWritable(directory) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw .inUse(directory)
        }
        self.directory = directory
        self.descriptor = descriptor
    }

    deinit {
        release()
        close(descriptor)
    }

    /// Closing alone gives the lock back only when no process that is just being started holds a copy of the descriptor.
    package func release() { _ = flock(descriptor, LOCK_UN) }

    /// SQLite gives the files beside the database the database's own mode, so it is made first.
    static func makeFile(_ path: String) throws(StoreError) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .directoryNotWritable(path) }
        defer { close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else { throw .directoryNotWritable(path) }
    }
}
