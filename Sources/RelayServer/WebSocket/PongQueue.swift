// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Decides which pings are answered: at most one pong is in transit, and of the pings that arrive meanwhile only the last is answered
/// (RFC 6455 §5.5.3). So a client that sends pings without reading makes the relay hold at most two payloads.
struct PongQueue {
    private var isInFlight = false
    private var waiting: ByteBuffer?

    /// - Parameter ping: the payload of a received ping.
    /// - Returns: the pong to send now.
    mutating func received(_ ping: ByteBuffer) -> ByteBuffer? {
        guard !isInFlight else {
            waiting = ping
            return nil
        }
        isInFlight = true
        return ping
    }

    /// The pong was written.
    /// - Returns: the next pong to send.
    mutating func sent() -> ByteBuffer? {
        isInFlight = false
        return waiting.take().flatMap { received($0) }
    }
}

extension ChannelHandlerContext {
    /// Closes the connection some time after a close frame. An immediate close could destroy bytes that the client has not read; the
    /// delay is bounded, because a client may never close.
    @discardableResult func closeSoon() -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(2)) { self.close(promise: nil) }
    }
}
