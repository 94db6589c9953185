// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage

extension Journal {
    /// What a person should know about a journal that has taken the place of a lost one.
    static func replacementWarning(_ path: String, at time: Int64) -> String {
        let date = Date(timeIntervalSince1970: Double(time) / 1_000).formatted(.iso8601)
        return
            "\(path) was missing or empty and was made anew at \(date): the commands that had not ended, the approvals of devices and the "
            + "revocations in it are lost; sending and receiving go on. Other devices are new here until they are approved again (relay "
            + "approve DEVICE), unless this device had invited them. Restore the file from a backup of that time, or join again"
    }
}

/// Why the journal cannot be used.
package enum JournalError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The file is not a journal, or its content is inconsistent. The file is not changed.
    case damaged(String)
    /// Another process keeps the journal locked.
    case locked(String)
    /// A newer version of this software has written the journal.
    case tooNew(String)
    /// The journal belongs to another endpoint.
    case otherEndpoint(String)
    case notWritable(String)
    case readOnly(String)
    case full(String)
    /// The journal was closed, because its endpoint has ended.
    case closed(String)
    /// SQLite's extended result code.
    case failed(Int32)

    package var description: String {
        switch self {
        case .damaged(let path):
            "\(path) is damaged and was left as it is; restore it from a backup, or remove the account and add it again"
        case .locked(let path): "\(path) is locked by another process that does not finish; stop it and try again"
        case .tooNew(let path): "\(path) was written by a newer version; update this one"
        case .otherEndpoint(let path): "\(path) belongs to another endpoint; it was restored without its key, or the key without it"
        case .notWritable(let path): "\(StorageError(.notWritable, path: path))"
        case .readOnly(let path): "\(StorageError(.readOnly, path: path))"
        case .full(let path): "\(StorageError(.full, path: path))"
        case .closed(let path): "\(path) is closed, because its endpoint has ended"
        case .failed(let code): "the journal cannot be written: SQLite error \(ResultCode(rawValue: code))"
        }
    }
}
