// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
import RelayProtocol

/// One side of a tunnel on its event loop: it passes the bytes read here to the other side. It sees only the tunnel's bytes; other
/// handlers do the framing of this connection.
package final class TunnelHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// How the transport reports the result of the admission to its client.
    struct Greeting {
        var transport: TunnelMetrics.Transport
        /// Reports the pairing. Puts this handler into the pipeline.
        var accept: (TunnelHandler) throws -> Void
        /// Reports the reason, and closes.
        var refuse: (TunnelStatus) -> Void
    }

    private struct Pairing {
        let generation: Int
        let outgoing: TunnelPipe
        let incoming: TunnelPipe
        /// The gate was informed that bytes pass, so the pairing is final.
        var isUsed = false
    }

    /// All loops share the counters, so they are not updated for every burst.
    private static let reportedBytes = 1 << 20

    private let tunnel: TunnelID
    private let channel: any Channel
    private let gate: any TunnelGate
    private let greeting: Greeting
    private let metrics: TunnelMetrics
    let dataPath: any TunnelDataPath
    private var entrant: EntrantID?
    private var context: ChannelHandlerContext?
    private var pairing: Pairing?
    private var isGreeted = false
    private var isDismissed = false
    /// The bytes read since the last hand-over.
    private var burst: [ByteBuffer] = []
    private var burstBytes = 0
    /// The bytes to write; empty between the calls.
    private var outbox: [ByteBuffer] = []
    private var isHeld = true
    private var isReadWanted = false
    private var isInputEnded = false
    private var isEndForwarded = false
    private var isOutputDone = false
    /// The socket has left the event loop.
    private var hasLeft = false
    /// The bytes not yet added to the metrics.
    private var receivedBytes = 0
    private var sentBytes = 0

    /// - Parameters:
    ///   - dataPath: carries the bytes if the other side uses the same path.
    ///   - early: bytes of the tunnel that arrived before the pairing.
    init(
        tunnel: TunnelID,
        channel: any Channel,
        gate: any TunnelGate,
        greeting: Greeting,
        metrics: TunnelMetrics,
        dataPath: any TunnelDataPath = NIODataPath(),
        early: ByteBuffer = ByteBuffer()
    ) {
        self.tunnel = tunnel
        self.channel = channel
        self.gate = gate
        self.greeting = greeting
        self.metrics = metrics
        self.dataPath = dataPath
        if early.readableBytes > 0 { keep(early) }
    }

    /// Presents the token.
    /// - Returns: whether the connection is admitted.
    func enter(token: [UInt8]) -> Bool {
        guard let entrant = gate.enter(tunnel, token: token, TunnelConnection(handler: self, channel: channel)) else { return false }
        self.entrant = entrant
        channel.closeFuture.assumeIsolated().whenComplete { _ in
            if !self.hasLeft { self.gate.left(self.tunnel, entrant) }
        }
        return true
    }

    var isPlain: Bool { greeting.transport == .tcp }
    var bytesInFlight: Int { burstBytes + (pairing?.outgoing.inFlight ?? 0) }

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        // The pipes hold this handler: breaks the reference cycle.
        pairing = nil
    }

    // MARK: Calls from the gate

    func paired(generation: Int, outgoing: TunnelPipe, incoming: TunnelPipe) {
        // The other side was informed first and has already begun.
        guard !hasLeft else { return }
        pairing = Pairing(generation: generation, outgoing: outgoing, incoming: incoming)
        guard channel.isActive, !isDismissed else { return breakOff() }
        do {
            if !isGreeted {
                isGreeted = true
                try greeting.accept(self)
            }
        } catch {
            return channel.close(promise: nil)
        }
        isHeld = false
        outgoing.source.greeted()
        forward()
        drain()
        if !isHeld { resume() }
    }

    /// Detaches from the channel and closes it; the duplicated socket stays open.
    /// - Returns: `nil` if the connection is closed already.
    func leave(by socket: CInt) -> DetachedSocket? {
        guard let entrant, channel.isActive else {
            DetachedSocket.close(socket)
            return nil
        }
        hasLeft = true
        receivedBytes += burstBytes
        let early = burst.flatMap(\.readableBytesView)
        (burst, burstBytes) = ([], 0)
        channel.close(promise: nil)
        return DetachedSocket(socket: socket, early: early, hasEnded: isInputEnded) { [gate, tunnel] in gate.left(tunnel, entrant) }
    }

    /// Forwards what has arrived meanwhile, and continues here.
    func stay() {
        isHeld = false
        forward()
        if !isHeld { resume() }
    }

    func dismissed(_ status: TunnelStatus) {
        guard !isDismissed else { return }
        isDismissed = true
        burst = []
        if isGreeted { channel.close(promise: nil) } else { greeting.refuse(status) }
        resume()
    }

    // MARK: In

    package func read(context: ChannelHandlerContext) {
        if isHeld { isReadWanted = true } else { context.read() }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isDismissed { keep(Self.unwrapInboundIn(data)) }
    }

    private func keep(_ bytes: ByteBuffer) {
        burst.append(bytes)
        burstBytes += bytes.readableBytes
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        forward()
        context.fireChannelReadComplete()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            isInputEnded = true
            // A client that ends its input before the pairing gives up the tunnel.
            if isDismissed || pairing == nil { context.close(promise: nil) } else { forward() }
        case is ChannelShouldQuiesceEvent:
            // Tunnels end on their own, or when the gate closes them.
            break
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    /// Hands over all bytes of one read burst at once.
    private func forward() {
        guard var pairing, !isEndForwarded, burstBytes > 0 || isInputEnded else { return }
        if !pairing.isUsed {
            guard gate.use(tunnel, generation: pairing.generation) else { return isHeld = true }
            pairing.isUsed = true
            self.pairing = pairing
        }
        // The bytes already read move to the transfer too.
        if pairing.outgoing.source.beginTransfer() { return isHeld = true }
        receivedBytes += burstBytes
        reportBytes(atLeast: Self.reportedBytes)
        let mayGoOn = pairing.outgoing.push(&burst, bytes: burstBytes, isEnd: isInputEnded)
        burstBytes = 0
        isEndForwarded = isInputEnded
        isHeld = !mayGoOn
        pairing.outgoing.deliver()
        if isEndForwarded, isOutputDone { context?.close(promise: nil) }
    }

    func resume() {
        isHeld = false
        guard isReadWanted else { return }
        isReadWanted = false
        context?.read()
    }

    // MARK: Out

    /// Writes the bytes that the other side has read, with one flush.
    func drain() {
        guard isGreeted, let context, let pipe = pairing?.incoming else { return }
        pipe.take(&outbox)
        var bytes = 0
        let written = outbox.isEmpty ? nil : context.eventLoop.makePromise(of: Void.self)
        for (index, buffer) in outbox.enumerated() {
            bytes += buffer.readableBytes
            context.write(Self.wrapOutboundOut(buffer), promise: index == outbox.count - 1 ? written : nil)
        }
        outbox.removeAll(keepingCapacity: true)
        guard let written else { return wrote(0, to: pipe) }
        written.futureResult.assumeIsolated().whenSuccess { self.wrote(bytes, to: pipe) }
        context.flush()
    }

    private func wrote(_ bytes: Int, to pipe: TunnelPipe) {
        sentBytes += bytes
        guard pipe.wrote(bytes), !isOutputDone else { return }
        isOutputDone = true
        context?.close(mode: .output, promise: nil)
        if isEndForwarded { context?.close(promise: nil) }
    }

    // MARK: The end

    package func channelInactive(context: ChannelHandlerContext) {
        if !(isEndForwarded && isOutputDone), !hasLeft { breakOff() }
        reportBytes(atLeast: 1)
        context.fireChannelInactive()
    }

    /// Aborts the other side unless both directions have ended properly: it must not mistake a break for the end. A connection that was
    /// replaced has no effect.
    private func breakOff() {
        guard let pairing, pairing.isUsed || gate.use(tunnel, generation: pairing.generation) else { return }
        pairing.outgoing.sink.abort()
    }

    private func reportBytes(atLeast least: Int) {
        guard receivedBytes + sentBytes >= least else { return }
        metrics.passed(received: receivedBytes, sent: sentBytes, by: greeting.transport)
        (receivedBytes, sentBytes) = (0, 0)
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
