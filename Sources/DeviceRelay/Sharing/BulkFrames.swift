// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// Takes the frames of a bulk stream, in their order.
package protocol BulkTaking: Sendable {
    func take(_ frames: [BulkFrame]) async throws
}

extension NIOAsyncChannelInboundStream<ByteBuffer> {
    /// Reads frames until the stream ends.
    /// - Parameters:
    ///   - isLast: Is told each frame as it arrives, and returns whether others may not follow soon. Default: only the end of the stream.
    ///   - take: Takes some frames at once: of 512 KiB, 512 frames, or all up to the last one.
    /// - Returns: Whether the stream has ended by its own word.
    /// - Throws: `BulkError` for bytes that are no frames; what the closures throw.
    func takeFrames(
        to isLast: (BulkFrame) throws -> Bool = { _ in false },
        _ take: ([BulkFrame]) async throws -> Void
    ) async throws -> Bool {
        let (mostBytes, mostFrames) = (512 << 10, 512)
        var decoder = BulkFrameDecoder()
        var (frames, bytes, hasLast) = ([BulkFrame](), 0, false)
        for try await buffer in self {
            bytes += buffer.readableBytes
            decoder.append(buffer)
            while let frame = try decoder.next() {
                frames.append(frame)
                if try isLast(frame) { hasLast = true }
            }
            guard hasLast || bytes >= mostBytes || frames.count >= mostFrames || decoder.hasEnded else { continue }
            try await take(frames)
            frames.removeAll(keepingCapacity: true)
            (bytes, hasLast) = (0, false)
            if decoder.hasEnded { return true }
        }
        // What arrived before the connection was lost need not be sent again.
        try await take(frames)
        return false
    }
}
