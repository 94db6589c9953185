// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Why a file or directory is not usable. The description contains advice.
package struct StorageError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Problem: Hashable, Sendable {
        case notADirectory
        case notWritable
        case notReadable
        /// Other users can read or change it.
        case accessibleToOthers
        /// Another process holds the endpoint's lock; the text identifies it.
        case endpointInUse(by: String)
        /// Another process has held a lock for too long.
        case locked
        case full
        /// It is not a regular file, too large, or has unknown content.
        case damaged
        /// The app's own storage of keys failed; the text is its error.
        case keyStorage(String)
        /// The system's error number.
        case failed(Int32)
    }

    package var problem: Problem
    package var path: String

    package init(_ problem: Problem, path: String) {
        self.problem = problem
        self.path = path
    }

    /// An error of writing or locking.
    /// - Parameter number: The system's error number.
    package init(system number: Int32, path: String) {
        switch number {
        case EACCES, EPERM, EROFS, ENOENT: self.init(.notWritable, path: path)
        case ENOTDIR: self.init(.notADirectory, path: path)
        case ENOSPC, EDQUOT: self.init(.full, path: path)
        default: self.init(.failed(number), path: path)
        }
    }

    package var description: String {
        switch problem {
        case .notADirectory: "\(path) is not a directory; choose another storage directory"
        case .notWritable: "\(path) cannot be written; choose another storage directory, or change its owner"
        case .notReadable: "\(path) cannot be read; it must belong to the user that runs this"
        case .accessibleToOthers: "\(path) is open to other users; run: chmod go-rwx '\(path)'"
        case .endpointInUse(let holder): "\(path) is in use by \(holder); stop it, or choose another storage directory"
        case .keyStorage(let error): "the storage of keys failed: \(error)"
        case .locked: "\(path) is locked by another process that does not finish; stop it and try again"
        case .full: "there is no space left for \(path)"
        case .damaged: "\(path) is damaged; restore it from a backup, or remove the account and add it again"
        case .failed(let number): "\(path) cannot be used (system error \(number))"
        }
    }
}
