// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

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
        case .notWritable(let path): "\(path) cannot be written; check its owner and mode"
        case .full(let path): "there is no space left for \(path)"
        case .closed(let path): "\(path) is closed, because its endpoint has ended"
        case .failed(let code): "the journal cannot be written (SQLite error \(code))"
        }
    }
}
