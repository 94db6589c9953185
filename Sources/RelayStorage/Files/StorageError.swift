// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

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
        /// The file system takes no writes.
        case readOnly
        case notReadable
        /// Other users can read or change it.
        case accessibleToOthers
        /// Other users can rename and remove what this user has in the folder.
        case unprotected
        /// Another process holds the endpoint's lock; the text identifies it.
        case endpointInUse(by: String)
        /// Another process has held a lock for too long.
        case locked
        case full
        /// Neither the environment nor the password database names the user's home folder.
        case homeUnknown
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
        case EROFS: self.init(.readOnly, path: path)
        case EACCES, EPERM, ENOENT: self.init(.notWritable, path: path)
        case ENOTDIR: self.init(.notADirectory, path: path)
        case ENOSPC, EDQUOT: self.init(.full, path: path)
        default: self.init(.failed(number), path: path)
        }
    }

    /// Why no file can be written beside this one; `nil` if one can. SQLite's result codes do not tell a full disk from a read-only one, or
    /// from one that fails.
    package static func probe(beside path: String) -> StorageError? {
        let draft = PrivateFile.draft(of: path)
        defer { unlink(draft) }
        do throws(StorageError) {
            // More than SQLite needs for its index of a write-ahead log.
            _ = try PrivateFile.write([UInt8](repeating: 0, count: 64 << 10), to: draft, of: path)
            return nil
        } catch {
            return error
        }
    }

    package var description: String {
        switch problem {
        case .notADirectory: "\(path) is not a directory; choose another one"
        case .notWritable: "\(path) cannot be written; choose another directory, or change its owner"
        case .notReadable: "\(path) cannot be read; it must belong to the user that runs this"
        case .unprotected: "other users can replace files in \(path); choose another folder, or run: \(ShellText.command("chmod +t", path))"
        case .accessibleToOthers: "\(path) is open to other users; run: chmod go-rwx '\(path)'"
        case .endpointInUse(let holder): "\(path) is in use by \(holder); stop it, or choose another storage directory"
        case .keyStorage(let error): "the storage of keys failed: \(error)"
        case .locked: "\(path) is locked by another process that does not finish; stop it and try again"
        case .readOnly: "\(path) cannot be written: Read-only file system; mount it for writing, or choose another directory"
        case .full: "\(path) cannot be written: No space left on device; free some, or choose another directory"
        case .homeUnknown: "the home folder of this user is not known; set HOME or \(path)"
        case .damaged: "\(path) is damaged; restore it from a backup, or remove the account and add it again"
        case .failed(let number): "\(path) cannot be used: \(String(cString: strerror(number)))"
        }
    }
}
