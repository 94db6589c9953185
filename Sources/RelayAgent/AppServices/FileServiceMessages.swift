// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// The requests and responses of the app service `files`. Paths are relative to the shared folder, with `/` between
/// names; the empty path is the folder itself.
enum FileServiceMessages {
    static let serviceName = "files"
    /// The maximum number of entries of one `list`, and of files of one `send`.
    static let maximumEntries = 1_000

    enum Kind: String, Codable, Sendable {
        case file, folder
    }

    struct Entry: Codable, Hashable, Sendable {
        var name: String
        var kind: Kind
        /// In bytes; 0 for a folder.
        var size: Int64
        var modified: Date
        /// Changes whenever the content may have changed.
        var etag: String
    }

    /// Something in a listed folder that no request can name or fetch.
    struct Omission: Codable, Hashable, Sendable {
        /// The name for people: what is not visible text in it is escaped.
        var name: String
        /// The name of a `Reason`, or one of a later version.
        var reason: String

        enum Reason: String, CaseIterable, Sendable {
            /// The name is not UTF-8.
            case notUTF8
            /// The name has a backslash, which separates names on other systems.
            case backslash
            /// The name has a character that controls a line, a terminal or the writing direction.
            case controlCharacter
            /// An unfinished transfer of this program.
            case unfinished
            /// A link.
            case link
            /// Neither a file nor a folder: a pipe, a socket or a device.
            case special
            /// Its attributes cannot be read.
            case unreadable

            init(_ defect: EntryName.Defect) {
                self =
                    switch defect {
                    case .notUTF8: .notUTF8
                    case .backslash: .backslash
                    case .controlCharacter: .controlCharacter
                    case .unfinished: .unfinished
                    }
            }
        }
    }

    /// Why a request fails.
    enum Problem: String, Codable, Sendable {
        /// No file or folder has this name.
        case notFound
        /// The path leads out of the folder, contains a link, or has a name that is not shared.
        case notAllowed
        case notAFile, notAFolder
        /// The file no longer has the requested `etag`.
        case changed
        /// The other device failed to read it.
        case failed
    }

    /// Returns the attributes of one file or folder.
    struct Stat: AppServiceCall {
        static let type = "stat"
        var path: String

        struct Response: Codable, Sendable {
            var entry: Entry?
            var problem: Problem?
        }
    }

    /// Returns the entries of a folder, in the order of their names.
    struct List: AppServiceCall {
        static let type = "list"
        var path: String
        /// Returns only entries after this name.
        var after: String?

        struct Response: Codable, Sendable {
            var entries: [Entry]?
            /// Whether more entries follow.
            var more: Bool?
            /// What was left out before the last of `entries`, and on the last page all that follows; at most `maximumEntries`.
            var omitted: [Omission]?
            /// How many more were left out in the same place.
            var omittedMore: Int?
            var problem: Problem?
        }
    }

    /// Names the bulk stream of the connection, which the caller is to open. It is the same each time.
    struct Content: AppServiceCall {
        static let type = "content"

        struct Response: Codable, Sendable {
            var token: [UInt8]
        }
    }

    /// Sends files over the bulk stream. The response comes when all of them are sent.
    struct Send: AppServiceCall {
        static let type = "send"
        var files: [File]

        struct File: Codable, Hashable, Sendable {
            /// Its number in the stream, chosen by the caller.
            var entry: UInt32
            var path: String
            /// The expected `etag`; a file with a different one is not sent.
            var etag: String
            /// The first bytes that the caller has, and their SHA-256.
            var length: Int64?
            var digest: Digest256?
            /// Where the content is to begin; absent for its beginning. A service of an earlier version begins there anyway.
            var offset: Int64?
        }

        struct Response: Codable, Sendable {
            var failed: [Failed]?
        }
    }

    /// A file that was not sent to its end.
    struct Failed: Codable, Hashable, Sendable {
        var entry: UInt32
        var problem: Problem
    }
}
