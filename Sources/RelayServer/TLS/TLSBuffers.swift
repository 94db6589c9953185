// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// `NIOSSLHandler` keeps two buffers for the life of its connection: 32 KiB for decryption and 16 KiB for encryption.
// Only touched pages are resident. This file keeps their number small.

@_spi(CustomByteBufferAllocator) import NIOCore
import NIOSSL

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

extension ChannelPipeline.SynchronousOperations {
    /// Adds TLS with page-aligned buffers: the few bytes that they usually hold then lie in one page instead of two.
    func addTLS(_ context: NIOSSLContext, on channel: any Channel) throws {
        let options = channel.syncOptions
        let usual = channel.allocator
        try options?.setOption(.allocator, value: .pageAligned)
        // The handler keeps the allocator that it finds when it is added.
        defer { try? options?.setOption(.allocator, value: usual) }
        try addHandlers([NIOSSLServerHandler(context: context), ExactCopyHandler()])
    }
}

extension ByteBufferAllocator {
    /// Replaces an NIO initializer outside NIO's stable interface. If NIO removes that initializer, this one is used, and buffers are not
    /// aligned (31 KiB for an idle connection instead of 27 KiB).
    @_disfavoredOverload
    private init(
        allocate: @convention(c) (Int) -> UnsafeMutableRawPointer?,
        reallocate: @convention(c) (UnsafeMutableRawPointer?, Int, Int) -> UnsafeMutableRawPointer?,
        deallocate: @convention(c) (UnsafeMutableRawPointer) -> Void,
        copy: @convention(c) (UnsafeMutableRawPointer, UnsafeRawPointer, Int) -> Void,
        // Makes the signature differ, so that this initializer does not hide NIO's.
        otherwise: Void = ()
    ) {
        self.init()
    }

    /// Aligns buffers of 16 KiB and more to pages.
    static let pageAligned = ByteBufferAllocator(
        allocate: { size in
            guard size >= 16 << 10 else { return malloc(size) }
            var memory: UnsafeMutableRawPointer?
            return posix_memalign(&memory, 4_096, size) == 0 ? memory : nil
        },
        reallocate: { memory, _, size in realloc(memory, size) },
        deallocate: { free($0) },
        copy: { $0.copyMemory(from: $1, byteCount: $2) }
    )
}

/// Forwards a copy of the decrypted bytes with its exact size. If a reader kept a slice of the decryption buffer, the
/// next read would copy the whole buffer and touch all its pages.
final class ExactCopyHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let copy = context.channel.allocator.buffer(buffer: Self.unwrapInboundIn(data))
        context.fireChannelRead(Self.wrapInboundOut(copy))
    }
}

/// Splits writes into small pieces that reuse the same part of the encryption buffer. For control channels, which are
/// idle most of the time.
final class WriteSplitter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let pieceBytes = 2_048

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var bytes = Self.unwrapOutboundIn(data)
        while bytes.readableBytes > Self.pieceBytes, let piece = bytes.readSlice(length: Self.pieceBytes) {
            context.writeAndFlush(Self.wrapOutboundOut(piece), promise: nil)
        }
        context.write(Self.wrapOutboundOut(bytes), promise: promise)
    }
}
