// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// The content of a file as it arrives: in order, and no more than its size.
package struct BulkContent: Sendable {
    /// In bytes, not negative.
    package let size: Int64
    /// The number of bytes that are here.
    package private(set) var position: Int64
    private var hash: DigestStream

    /// - Parameters:
    ///   - position: The bytes that are here from an earlier transfer; 0 to `size`.
    ///   - hash: The hash of these bytes.
    package init(size: Int64, position: Int64 = 0, hash: DigestStream = DigestStream()) {
        (self.size, self.position, self.hash) = (size, position, hash)
    }

    /// The digest of the bytes that are here.
    package var digest: Digest256 { hash.digest }

    /// Adds a part of the content. A part at 0 begins again: the sender did not accept what was here.
    /// - Returns: By how many bytes more is here than before; negative if less is here.
    /// - Throws: `misplaced` if the part does not follow what is here, or exceeds the size. Nothing is changed then.
    package mutating func add(_ data: ByteBuffer, at offset: UInt64) throws(BulkError) -> Int64 {
        guard let offset = Int64(exactly: offset), offset == position || offset == 0, Int64(data.readableBytes) <= size - offset else {
            throw .misplaced
        }
        let before = position
        if offset == 0 { (position, hash) = (0, DigestStream()) }
        data.withUnsafeReadableBytes { hash.add($0) }
        position += Int64(data.readableBytes)
        return position - before
    }

    /// Whether all is here, and is what the sender has read.
    package func isWhole(_ digest: Digest256) -> Bool { position == size && self.digest == digest }
}
