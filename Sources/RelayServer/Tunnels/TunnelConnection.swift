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
    let isPlain: Bool
    private let dataPath: any TunnelDataPath
    private let transfer = Mutex<(any TunnelTransfer, side: Int)?>(nil)

    /// Called on the event loop.
    init(handler: TunnelHandler, channel: any Channel) {
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.channel = channel
        isPlain = handler.isPlain
        dataPath = handler.dataPath
    }

    var eventLoop: any EventLoop { channel.eventLoop }

    /// Lets two connections' bytes over to each other; again when one of them came anew before any passed.
    static func pair(_ one: TunnelConnection, _ other: TunnelConnection, generation: Int, metrics: TunnelMetrics) {
        let (forth, back) = (TunnelPipe(from: one, to: other), TunnelPipe(from: other, to: one))
        let transfer = one.dataPath.transfer(between: one, and: other, metrics: metrics)
        one.transfer.withLock { $0 = transfer.map { ($0, 0) } }
        other.transfer.withLock { $0 = transfer.map { ($0, 1) } }
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
        transfer.withLock { $0 }?.0.abort()
    }

    /// There is something to write. Called on the event loop, as `resume`.
    func drain() { handler.value.drain() }

    /// The other side has room again.
    func resume() { handler.value.resume() }

    /// What was read here and is not written there.
    func bytesInFlight() async throws -> Int {
        var count = try await eventLoop.submit { self.handler.value.bytesInFlight }.get()
        if let (transfer, side) = transfer.withLock({ $0 }) { count += await transfer.bytesInFlight(from: side) }
        return count
    }
}

extension TunnelConnection {
    /// Its client has been told that it is paired. Called on the event loop, as `beginTransfer`.
    func greeted() {
        if let (transfer, side) = transfer.withLock({ $0 }) { transfer.greeted(side) }
    }

    /// Bytes are about to pass.
    /// - Returns: whether both connections leave their event loops now.
    func beginTransfer() -> Bool { transfer.withLock { $0 }?.0.begin() ?? false }

    func duplicateSocket(_ completion: @escaping @Sendable (CInt?) -> Void) {
        eventLoop.execute { completion(self.channel.duplicatedSocket()) }
    }

    /// Leaves the event loop, with the other number of the socket. `nil` if there is nothing to leave any more.
    func leave(by socket: CInt, _ completion: @escaping @Sendable (DetachedSocket?) -> Void) {
        eventLoop.execute { completion(self.handler.value.leave(by: socket)) }
    }

    /// Goes on in the event loop after all.
    func stay() { eventLoop.execute { self.handler.value.stay() } }
}
