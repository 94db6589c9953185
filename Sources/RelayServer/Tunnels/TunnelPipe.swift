// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// One direction of a pair of connections, which may be on different event loops. Its content is bounded: the source stops reading while
/// `highWater` bytes are not yet written at the sink. One burst of reads may exceed that.
package final class TunnelPipe: Sendable {
    static let highWater = 256 << 10
    static let lowWater = 64 << 10

    private struct State {
        var outbox: [ByteBuffer] = []
        /// Bytes handed over and not written yet, in the outbox or at the sink.
        var inFlight = 0
        /// A drain of the sink is scheduled.
        var isScheduled = false
        /// The source waits for the sink.
        var isHeld = false
        var hasEnded = false
    }

    let source: TunnelConnection
    let sink: TunnelConnection
    private let isOnOneLoop: Bool
    private let state = Mutex(State())

    init(from source: TunnelConnection, to sink: TunnelConnection) {
        self.source = source
        self.sink = sink
        isOnOneLoop = source.eventLoop === sink.eventLoop
    }

    /// Bytes handed over and not written yet.
    package var inFlight: Int { state.withLock { $0.inFlight } }

    /// Takes a burst of reads, and leaves an empty array in its place. Called on the source's loop, before `deliver`.
    /// - Returns: whether the source may continue to read.
    func push(_ burst: inout [ByteBuffer], bytes: Int, isEnd: Bool) -> Bool {
        state.withLock { state in
            if state.outbox.isEmpty {
                swap(&state.outbox, &burst)
            } else {
                state.outbox.append(contentsOf: burst)
                burst.removeAll(keepingCapacity: true)
            }
            state.inFlight += bytes
            state.hasEnded = state.hasEnded || isEnd
            state.isHeld = state.inFlight >= Self.highWater
            return !state.isHeld
        }
    }

    /// Makes the sink write what was pushed.
    func deliver() {
        guard !isOnOneLoop else { return sink.drain() }
        let isFirst = state.withLock { state in
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { sink.eventLoop.execute { self.sink.drain() } }
    }

    /// Swaps the waiting buffers for an empty array. Called on the sink's loop.
    func take(_ buffers: inout [ByteBuffer]) {
        state.withLock { state in
            state.isScheduled = false
            swap(&state.outbox, &buffers)
        }
    }

    /// Records bytes that the sink has written. Called on the sink's loop.
    /// - Returns: whether the direction is complete.
    func wrote(_ bytes: Int) -> Bool {
        let (isDone, resumes) = state.withLock { state in
            state.inFlight -= bytes
            let resumes = state.isHeld && state.inFlight <= Self.lowWater
            if resumes { state.isHeld = false }
            return (state.hasEnded && state.inFlight == 0, resumes)
        }
        if resumes {
            if isOnOneLoop { source.resume() } else { source.eventLoop.execute { self.source.resume() } }
        }
        return isDone
    }
}
