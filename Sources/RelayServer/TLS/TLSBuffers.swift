// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// `NIOSSLHandler` keeps two buffers for as long as its connection lives: 32 KiB for what it decrypts, 16 KiB for what it
// encrypts. Only what was touched of them is resident; these two handlers keep that small.

import NIOCore

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
