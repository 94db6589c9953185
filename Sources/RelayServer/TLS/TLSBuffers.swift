// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// `NIOSSLHandler` keeps two buffers for as long as its connection lives: 32 KiB for what it decrypts, 16 KiB for what it
// encrypts. Only what was touched of them is resident; all of this keeps that small.

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
    /// Adds TLS, whose buffers begin where a page of memory does: the little that is nearly always in them lies in one page then, not in two.
    func addTLS(_ context: NIOSSLContext, on channel: any Channel) throws {
        let options = channel.syncOptions
        let usual = channel.allocator
        try options?.setOption(.allocator, value: .pageAligned)
        // The handler takes the allocator with it; nobody else needs it.
        defer { try? options?.setOption(.allocator, value: usual) }
        try addHandlers([NIOSSLServerHandler(context: context), PlaintextHandler()])
    }
}

extension ByteBufferAllocator {
    /// In place of NIO's own, which is no part of its stable interface: with a NIO that has none, this one is found, and buffers begin
    /// anywhere (31 KiB for an idle connection, not 27).
    @_disfavoredOverload
    private init(
        allocate: @convention(c) (Int) -> UnsafeMutableRawPointer?,
        reallocate: @convention(c) (UnsafeMutableRawPointer?, Int, Int) -> UnsafeMutableRawPointer?,
        deallocate: @convention(c) (UnsafeMutableRawPointer) -> Void,
        copy: @convention(c) (UnsafeMutableRawPointer, UnsafeRawPointer, Int) -> Void
    ) {
        self.init()
    }

    /// Lets large buffers begin with a page.
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

/// Hands on a copy of what was decrypted, as large as that is. While somebody still holds a part of the last read, the next one
/// would copy the whole buffer and so touch all of it.
final class PlaintextHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let copy = context.channel.allocator.buffer(buffer: Self.unwrapInboundIn(data))
        context.fireChannelRead(Self.wrapInboundOut(copy))
    }
}

/// Lets what is written leave in small pieces, each of which takes the same place in the buffer. For control channels, which wait
/// nearly all the time.
final class SmallWritesHandler: ChannelOutboundHandler {
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
