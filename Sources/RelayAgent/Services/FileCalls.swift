// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What the app service `files` is asked, and what it answers. Paths are relative to the shared folder, with `/` between names; the empty
/// one is the folder itself.
enum FileCalls {
    static let serviceName = "files"
    /// Bytes that one `read` gives at most.
    static let maximumReadBytes = 1 << 20
    /// Entries that one `list` gives at most.
    static let maximumEntries = 1_000

    enum Kind: String, Codable, Sendable {
        case file, folder
    }

    struct Entry: Codable, Hashable, Sendable {
        var name: String
        var kind: Kind
        /// Bytes; 0 of a folder.
        var size: Int64
        var modified: Date
        /// Another one when the content may be another.
        var etag: String
    }

    /// Why there is no answer.
    enum Problem: String, Codable, Sendable {
        /// There is nothing of this name, or what is there is neither a file nor a folder.
        case notFound
        /// The path leads out of the folder, or would if it were followed.
        case notAllowed
        case notAFile, notAFolder
        /// The file is not the one of the `etag` any more.
        case changed
        /// The other device cannot read it.
        case failed
    }

    /// Facts about one file or folder.
    struct Stat: AppServiceCall {
        static let type = "stat"
        var path: String

        struct Response: Codable, Sendable {
            var entry: Entry?
            var problem: Problem?
        }
    }

    /// The files and folders in a folder, in the order of their names.
    struct List: AppServiceCall {
        static let type = "list"
        var path: String
        /// Only those behind this name.
        var after: String?

        struct Response: Codable, Sendable {
            var entries: [Entry]?
            /// There are more behind the last.
            var more: Bool?
            var problem: Problem?
        }
    }

    /// A part of a file.
    struct Read: AppServiceCall {
        static let type = "read"
        var path: String
        var offset: Int64
        var length: Int
        /// Only if the file is still this one.
        var etag: String?

        struct Response: Codable, Sendable {
            /// Fewer bytes than were asked for only at the end of the file.
            var data: [UInt8]?
            var size: Int64?
            var etag: String?
            var problem: Problem?
        }
    }
}
