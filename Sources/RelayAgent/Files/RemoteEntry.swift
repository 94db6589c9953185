// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The checked attributes of a file or folder of another device.
struct RemoteEntry: Sendable {
    static let maximumETagBytes = 256

    let kind: FileServiceMessages.Kind
    /// The size in bytes, not negative; 0 for a folder.
    let size: Int64
    /// In whole milliseconds: the middle of one, so that its text has the same one.
    let modified: Date
    let etag: String

    /// The etag as HTTP takes it. That of the other device can be any text.
    var tag: String { String(Digest256(hashing: Array(etag.utf8)).description.prefix(32)) }

    /// In milliseconds since 1970; 0 for a date that is none, and within some million years.
    var modifiedMilliseconds: Int64 {
        let milliseconds = (modified.timeIntervalSince1970 * 1_000).rounded()
        return milliseconds.isNaN ? 0 : Int64(max(-1e17, min(1e17, milliseconds)))
    }

    /// - Parameter path: the path of the entry, or of the folder that lists it.
    init(_ entry: FileServiceMessages.Entry, _ path: String) throws(AgentError) {
        guard entry.size >= 0 else { throw Listing.invalid(path, "a size is negative") }
        guard entry.etag.utf8.count <= Self.maximumETagBytes else {
            throw Listing.invalid(path, "an etag has more than \(Self.maximumETagBytes) bytes")
        }
        kind = entry.kind
        size = entry.kind == .folder ? 0 : entry.size
        let milliseconds = (entry.modified.timeIntervalSince1970 * 1_000).rounded()
        modified = milliseconds.isFinite ? Date(timeIntervalSince1970: (milliseconds + 0.25) / 1_000) : entry.modified
        etag = entry.etag
    }
}
