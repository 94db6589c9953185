// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The frames that a control channel has not sent. Those of one read, or of one batch of the core, are sent as one write: if the endpoint
/// does not read, there are few buffers to free instead of thousands.
struct OutgoingFrames {
    /// The frames of one write.
    struct Batch {
        fileprivate(set) var frames = ByteBuffer()
        fileprivate var count = 0
        fileprivate var whenWritten: [() -> Void] = []
    }

    private var next = Batch()
    /// What all unsent frames count, with those of unfinished writes.
    private(set) var bytes = 0

    /// - Parameter done: Called when the frame is written, or the channel is closed.
    mutating func append(opcode: WebSocketHeader.Opcode, _ payload: ByteBuffer, then done: (() -> Void)?) {
        let before = next.frames.readableBytes
        next.frames.reserveCapacity(minimumWritableBytes: payload.readableBytes + 10)
        next.frames.writeWebSocketFrame(opcode: opcode, payload: payload)
        let count = next.frames.readableBytes - before + AdmissionPolicy.standard.frameOverhead
        next.count += count
        bytes += count
        if let done { next.whenWritten.append(done) }
    }

    /// Calls back as for the last frame of the next write.
    /// - Returns: whether there is such a frame.
    mutating func callWhenWritten(_ done: @escaping () -> Void) -> Bool {
        guard next.frames.readableBytes > 0 else { return false }
        next.whenWritten.append(done)
        return true
    }

    /// The frames of the next write; `nil` if there are none.
    mutating func takeBatch() -> Batch? {
        guard next.frames.readableBytes > 0 else { return nil }
        defer { next = Batch() }
        return next
    }

    /// The write of a batch has ended.
    /// - Returns: What to call now.
    mutating func written(_ batch: Batch) -> [() -> Void] {
        bytes -= batch.count
        return batch.whenWritten
    }
}
