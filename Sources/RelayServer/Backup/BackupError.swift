// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Why a backup or restore failed, besides a `StorageError`. The description contains advice.
package enum BackupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The destination file exists.
    case exists(String)
    /// The file is not a complete backup; the second text describes the damage.
    case damaged(String, String)
    /// A database could not be copied; SQLite's result code.
    case database(String, code: Int32)
    /// The directory to restore into is not empty.
    case notEmpty(String)
    /// There is no folder of backups.
    case noFolder(String)
    /// The clock shows a time without a name.
    case clock

    package var description: String {
        switch self {
        case .exists(let path): "\(path) is there already; choose another name, or replace it with --force"
        case .damaged(let path, let what): "\(path) is not a whole backup of a relay (\(what)); nothing was changed. Use another backup"
        case .database(let path, let code): "\(path) cannot be copied (SQLite result \(code)); see that it is a relay's, and whole"
        case .noFolder(let path): "there is no folder \(path); make it with: \(ShellText.command("mkdir -m 700", path))"
        case .clock: "the clock of this machine is wrong; set it, preferably with NTP (`timedatectl set-ntp true`)"
        case .notEmpty(let path): "\(path) is not empty; with --force the relay's files there are first moved to a folder of their own"
        }
    }
}
