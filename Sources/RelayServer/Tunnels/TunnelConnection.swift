// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A connection in a tunnel, for use from any thread.
package final class TunnelConnection: Sendable {
    private let handler: NIOLoopBound<TunnelHandler>
    private let channel: any Channel
    /// Whether the socket carries only the tunnel's bytes.
    let isPlain: Bool
    private let dataPath: any TunnelDataPath
    private let transfer = Mutex<(any TunnelTransfer, side: Int)?>(nil)

    /// Must be called on the event loop.
    init(handler: TunnelHandler, channel: any Channel) {
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        self.channel = channel
        isPlain = handler.isPlain
        dataPath = handler.dataPath
    }

    var eventLoop: any EventLoop { channel.eventLoop }

    /// Forwards bytes between two connections. Called again if one of them is replaced before any byte has passed.
    static func pair(_ one: TunnelConnection, _ other: TunnelConnection, generation: Int, metrics: TunnelMetrics) {
        let (forth, back) = (TunnelPipe(from: one, to: other), TunnelPipe(from: other, to: one))
        let transfer = one.dataPath.transfer(between: one, and: other, metrics: metrics)
        one.transfer.withLock { $0 = transfer.map { ($0, 0) } }
        other.transfer.withLock { $0 = transfer.map { ($0, 1) } }
        one.eventLoop.execute { one.handler.value.paired(generation: generation, outgoing: forth, incoming: back) }
        other.eventLoop.execute { other.handler.value.paired(generation: generation, outgoing: back, incoming: forth) }
    }

    /// Sends the reason to the client, and closes.
    func dismiss(_ status: TunnelStatus) {
        eventLoop.execute { self.handler.value.dismissed(status) }
    }

    /// Closes immediately.
    func abort() {
        channel.close(promise: nil)
        transfer.withLock { $0 }?.0.abort()
    }

    /// Writes the waiting bytes. Must be called on the event loop, as `resume`.
    func drain() { handler.value.drain() }

    /// The other side has room for more bytes.
    func resume() { handler.value.resume() }

    /// The bytes that were read here and are not yet written on the other side.
    func bytesInFlight() async throws -> Int {
        var count = try await eventLoop.submit { self.handler.value.bytesInFlight }.get()
        if let (transfer, side) = transfer.withLock({ $0 }) { count += await transfer.bytesInFlight(from: side) }
        return count
    }
}

extension TunnelConnection {
    /// Reports that the client knows about the pairing. Must be called on the event loop, as `beginTransfer`.
    func greeted() {
        if let (transfer, side) = transfer.withLock({ $0 }) { transfer.greeted(side) }
    }

    /// Announces the first bytes.
    /// - Returns: whether both connections leave their event loops now.
    func beginTransfer() -> Bool { transfer.withLock { $0 }?.0.begin() ?? false }

    func duplicateSocket(_ completion: @escaping @Sendable (CInt?) -> Void) {
        eventLoop.execute { completion(self.channel.duplicatedSocket()) }
    }

    /// Detaches the connection from the event loop, and passes on the duplicated socket; `nil` if the connection is closed already.
    func leave(by socket: CInt, _ completion: @escaping @Sendable (DetachedSocket?) -> Void) {
        eventLoop.execute { completion(self.handler.value.leave(by: socket)) }
    }

    /// Continues in the event loop, because the transfer could not begin.
    func stay() { eventLoop.execute { self.handler.value.stay() } }
}
