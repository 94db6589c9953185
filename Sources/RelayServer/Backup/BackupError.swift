// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a backup is not made or not restored. The text says what to do.
package enum BackupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file that the backup would become is there already.
    case exists(String)
    case notReadable(String, code: Int32)
    case notWritable(String, code: Int32)
    /// The file is no backup, or not all of one; what is wrong with it.
    case damaged(String, String)
    /// A database cannot be copied; SQLite's result code.
    case database(String, code: Int32)
    /// The directory to restore into has something in it.
    case notEmpty(String)

    package var description: String {
        switch self {
        case .exists(let path): "\(path) is there already; choose another name, or replace it with --force"
        case .notReadable(let path, let code): "\(path) cannot be read (errno \(code)); it must belong to the user that runs relayd"
        case .notWritable(let path, let code): "\(path) cannot be written (errno \(code)); check the free space, and whose the folder is"
        case .damaged(let path, let what): "\(path) is not a whole backup of a relay (\(what)); nothing was changed. Use another backup"
        case .database(let path, let code): "\(path) cannot be copied (SQLite result \(code)); see that it is a relay's, and whole"
        case .notEmpty(let path): "\(path) is not empty; with --force the relay's files there are first moved to a folder of their own"
        }
    }
}
