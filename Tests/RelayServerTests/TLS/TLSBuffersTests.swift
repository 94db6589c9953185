// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOEmbedded
import Testing

@testable import RelayServer

@Suite struct TLSBuffersTests {
    /// Fails with a NIO that has no place for an allocator any more; then idle connections take some KiB more.
    @Test func largeBuffersArePageAligned() {
        let buffers = [16 << 10, 32 << 10].flatMap { size in (0..<8).map { _ in ByteBufferAllocator.pageAligned.buffer(capacity: size) } }
        for buffer in buffers { #expect(buffer.withVeryUnsafeBytes { Int(bitPattern: $0.baseAddress) % 4_096 } == 0) }
    }

    @Test func readBytesAreCopiedToASmallBuffer() throws {
        let channel = EmbeddedChannel(handler: ExactCopyHandler())
        var whole = ByteBufferAllocator().buffer(capacity: 32 << 10)
        whole.writeString("skip")
        whole.moveReaderIndex(forwardBy: 4)
        whole.writeString("film")
        try channel.writeInbound(whole)
        let copy = try #require(try channel.readInbound(as: ByteBuffer.self))
        #expect(copy == ByteBuffer(string: "film"))
        #expect(copy.capacity < 1_024)
        // What the reader holds is not where the next read goes.
        let place = whole.withUnsafeReadableBytes { $0.baseAddress }
        #expect(copy.withUnsafeReadableBytes { $0.baseAddress } != place)
        #expect(try channel.finish().isClean)
    }

    @Test(arguments: [0, 1, 2_048, 2_049, 70_000]) func writesAreSplitIntoSmallPieces(count: Int) throws {
        let channel = EmbeddedChannel(handler: WriteSplitter())
        let bytes = ByteBuffer(bytes: (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })
        let written = channel.eventLoop.makePromise(of: Void.self)
        var isWritten = false
        written.futureResult.assumeIsolated().whenSuccess { isWritten = true }
        channel.write(bytes, promise: written)
        #expect(!isWritten)
        channel.flush()
        #expect(isWritten)
        var left: [ByteBuffer] = []
        while let piece = try channel.readOutbound(as: ByteBuffer.self) { left.append(piece) }
        #expect(left.count == max(1, (count + 2_047) / 2_048))
        #expect(left.allSatisfy { $0.readableBytes <= 2_048 })
        #expect(left.reduce(into: ByteBuffer()) { $0.writeImmutableBuffer($1) } == bytes)
        #expect(try channel.finish().isClean)
    }

    @Test func failedPieceFailsTheWrite() throws {
        let channel = EmbeddedChannel(handler: WriteSplitter())
        #expect(try channel.finish().isClean)
        let written = channel.eventLoop.makePromise(of: Void.self)
        channel.writeAndFlush(ByteBuffer(repeating: 7, count: 5_000), promise: written)
        #expect(throws: ChannelError.self) { try written.futureResult.wait() }
    }
}
