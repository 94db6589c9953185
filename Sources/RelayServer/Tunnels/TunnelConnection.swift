// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// A connection that is in a tunnel, for those on other threads.
package final class TunnelConnection: Sendable {
    private let handler: NIOLoopBound<TunnelHandler>
    private let channel: any Channel

    /// Called on the event loop.
    init(handler: TunnelHandler, channel: any Channel) {
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.channel = channel
    }

    var eventLoop: any EventLoop { channel.eventLoop }

    /// Lets two connections' bytes over to each other; again when one of them came anew before any passed.
    static func pair(_ one: TunnelConnection, _ other: TunnelConnection, generation: Int) {
        let (forth, back) = (TunnelPipe(from: one, to: other), TunnelPipe(from: other, to: one))
        one.eventLoop.execute { one.handler.value.paired(generation: generation, outgoing: forth, incoming: back) }
        other.eventLoop.execute { other.handler.value.paired(generation: generation, outgoing: back, incoming: forth) }
    }

    /// Says why nothing comes of it, and closes.
    func dismiss(_ status: TunnelStatus) {
        eventLoop.execute { self.handler.value.dismissed(status) }
    }

    /// Closes at once.
    func abort() { channel.close(promise: nil) }

    /// There is something to write. Called on the event loop, as `resume`.
    func drain() { handler.value.drain() }

    /// The other side has room again.
    func resume() { handler.value.resume() }

    /// What was read here and is not written there.
    func bytesInFlight() async throws -> Int {
        try await eventLoop.submit { self.handler.value.bytesInFlight }.get()
    }
}
