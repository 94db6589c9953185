// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Buffers that are filled in turn, and used again once their readers are done. New memory would cost more: the system clears each page.
struct BufferRing {
    private var buffers: [ByteBuffer]
    private var last = 0

    /// - Parameter count: How many buffers are read at the same time, at least 1. More get new memory.
    init(_ count: Int) { buffers = Array(repeating: ByteBuffer(), count: count) }

    /// Fills the next buffer, which is empty before.
    mutating func next(minimumCapacity: Int, _ fill: (inout ByteBuffer) -> Void) -> ByteBuffer {
        last = (last + 1) % buffers.count
        buffers[last].clear(minimumCapacity: minimumCapacity)
        fill(&buffers[last])
        return buffers[last]
    }
}

/// Passes on copies of what is received. TLS fills one buffer; while that is read, it would take new memory for each read of the
/// connection.
final class BufferRingHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var ring: BufferRing

    init(_ ring: BufferRing) { self.ring = ring }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let received = unwrapInboundIn(data)
        let copy = ring.next(minimumCapacity: received.readableBytes) { $0.writeImmutableBuffer(received) }
        context.fireChannelRead(wrapInboundOut(copy))
    }
}
