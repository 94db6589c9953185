// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A connection that is in a tunnel, for those on other threads.
package final class TunnelConnection: Sendable {
    private let handler: NIOLoopBound<TunnelHandler>
    private let channel: any Channel
    /// Nothing but the tunnel's bytes is on the socket.
    private let isPlain: Bool
    #if os(Linux)
    private let splice = Mutex<(meeting: SpliceMeeting, side: Int)?>(nil)
    #endif

    /// Called on the event loop.
    init(handler: TunnelHandler, channel: any Channel) {
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.channel = channel
        isPlain = handler.isPlain
    }

    var eventLoop: any EventLoop { channel.eventLoop }

    /// Lets two connections' bytes over to each other; again when one of them came anew before any passed.
    static func pair(_ one: TunnelConnection, _ other: TunnelConnection, generation: Int, metrics: TunnelMetrics) {
        let (forth, back) = (TunnelPipe(from: one, to: other), TunnelPipe(from: other, to: one))
        #if os(Linux)
        let meeting = one.isPlain && other.isPlain ? SpliceMeeting(one, other, metrics: metrics) : nil
        one.splice.withLock { $0 = meeting.map { ($0, 0) } }
        other.splice.withLock { $0 = meeting.map { ($0, 1) } }
        #endif
        one.eventLoop.execute { one.handler.value.paired(generation: generation, outgoing: forth, incoming: back) }
        other.eventLoop.execute { other.handler.value.paired(generation: generation, outgoing: back, incoming: forth) }
    }

    /// Says why nothing comes of it, and closes.
    func dismiss(_ status: TunnelStatus) {
        eventLoop.execute { self.handler.value.dismissed(status) }
    }

    /// Closes at once.
    func abort() {
        channel.close(promise: nil)
        #if os(Linux)
        splice.withLock { $0 }?.meeting.abort()
        #endif
    }

    /// There is something to write. Called on the event loop, as `resume`.
    func drain() { handler.value.drain() }

    /// The other side has room again.
    func resume() { handler.value.resume() }

    /// What was read here and is not written there.
    func bytesInFlight() async throws -> Int {
        var count = try await eventLoop.submit { self.handler.value.bytesInFlight }.get()
        #if os(Linux)
        if let (meeting, side) = splice.withLock({ $0 }) { count += await meeting.bytesInFlight(from: side) }
        #endif
        return count
    }
}

#if os(Linux)
extension TunnelConnection {
    /// The connection can be spliced: its client has been told that it is paired. Called on the event loop, as `beginSplice`.
    func canBeSpliced() {
        if let (meeting, side) = splice.withLock({ $0 }) { meeting.greeted(side) }
    }

    /// Bytes are about to pass.
    /// - Returns: whether they pass in a splice loop, which both connections go to now.
    func beginSplice() -> Bool {
        splice.withLock { $0 }?.meeting.begin() ?? false
    }

    func duplicateSocket(for meeting: SpliceMeeting, _ side: Int) {
        eventLoop.execute { meeting.duplicated(self.channel.duplicatedSocket(), side) }
    }

    /// Leaves the event loop, with the other number of the socket.
    func leave(by socket: CInt, for meeting: SpliceMeeting, _ side: Int) {
        eventLoop.execute {
            if let end = self.handler.value.leave(by: socket) { meeting.arrived(end, side) } else { meeting.abort() }
        }
    }

    /// Goes on in the event loop after all.
    func stay() { eventLoop.execute { self.handler.value.stay() } }
}
#endif
