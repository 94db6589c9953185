// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Which pings are answered: at most one pong is on its way, and of the pings that come meanwhile only the last is answered
/// (RFC 6455 §5.5.3). So a client that pings without reading makes the relay hold no more than two.
struct PongQueue {
    private var isOnItsWay = false
    private var waiting: ByteBuffer?

    /// - Parameter ping: The payload of a ping that came.
    /// - Returns: The pong to send now.
    mutating func received(_ ping: ByteBuffer) -> ByteBuffer? {
        guard !isOnItsWay else {
            waiting = ping
            return nil
        }
        isOnItsWay = true
        return ping
    }

    /// The pong has left.
    /// - Returns: The next one to send.
    mutating func sent() -> ByteBuffer? {
        isOnItsWay = false
        return waiting.take().flatMap { received($0) }
    }
}

extension ChannelHandlerContext {
    /// Closes the connection behind a close frame. Not at once, which could destroy what the client has not read yet; but a client that never
    /// closes, or reads nothing, is not waited for.
    @discardableResult func closeSoon() -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(2)) { self.close(promise: nil) }
    }
}
