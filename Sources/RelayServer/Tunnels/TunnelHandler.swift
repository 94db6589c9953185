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
    private var machine = TunnelSideMachine()
    private var pipes: (outgoing: TunnelPipe, incoming: TunnelPipe)?
    /// The bytes read since the last hand-over.
    private var burst: [ByteBuffer] = []
    private var burstBytes = 0
    /// The bytes to write; empty between the calls.
    private var outbox: [ByteBuffer] = []
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
            if !self.machine.hasLeft { self.gate.left(self.tunnel, entrant) }
        }
        return true
    }

    var isPlain: Bool { greeting.transport == .tcp }
    var bytesInFlight: Int { burstBytes + (pipes?.outgoing.inFlight ?? 0) }

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        // The pipes hold this handler: breaks the reference cycle.
        pipes = nil
    }

    // MARK: Calls from the gate

    func paired(generation: Int, outgoing: TunnelPipe, incoming: TunnelPipe) {
        switch machine.paired(generation: generation, isActive: channel.isActive) {
        case .nothing: break
        case .breakOff: if gate.use(tunnel, generation: generation) { outgoing.sink.abort() }
        case .begin(let greets):
            pipes = (outgoing, incoming)
            do {
                if greets { try greeting.accept(self) }
            } catch {
                return channel.close(promise: nil)
            }
            outgoing.source.greeted()
            begin()
        }
    }

    /// Forwards what has arrived meanwhile, in both directions, and reads.
    private func begin() {
        machine.began()
        forward()
        drain()
        if machine.takeRead() { context?.read() }
    }

    /// Detaches from the channel and closes it; the duplicated socket stays open.
    /// - Returns: `nil` if the connection is closed already.
    func leave(by socket: CInt) -> DetachedSocket? {
        guard let entrant, channel.isActive else {
            DetachedSocket.close(socket)
            return nil
        }
        machine.leaves()
        receivedBytes += burstBytes
        let early = burst.flatMap(\.readableBytesView)
        (burst, burstBytes) = ([], 0)
        channel.close(promise: nil)
        let hasEnded = machine.hasInputEnded
        return DetachedSocket(socket: socket, early: early, hasEnded: hasEnded) { [gate, tunnel] in gate.left(tunnel, entrant) }
    }

    /// Continues here.
    func stay() { begin() }

    func dismissed(_ status: TunnelStatus) {
        guard let dismissal = machine.dismissed() else { return }
        (burst, burstBytes) = ([], 0)
        switch dismissal {
        case .close: channel.close(promise: nil)
        case .refuse: greeting.refuse(status)
        }
        resume()
    }

    // MARK: In

    package func read(context: ChannelHandlerContext) {
        if machine.wantsRead() { context.read() }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !machine.isDismissed { keep(Self.unwrapInboundIn(data)) }
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
            if machine.inputEnded() { context.close(promise: nil) } else { forward() }
        case is ChannelShouldQuiesceEvent:
            // Tunnels end on their own, or when the gate closes them.
            break
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    /// Hands over all bytes of one read burst at once.
    private func forward() {
        guard let outgoing = pipes?.outgoing else { return }
        while let step = machine.nextStep(hasBytes: burstBytes > 0) {
            switch step {
            case .announce(let generation):
                let isCurrent = gate.use(tunnel, generation: generation)
                machine.announced(isCurrent: isCurrent)
                if !isCurrent { return }
            case .handOver(let isEnd): return handOver(to: outgoing, isEnd: isEnd)
            }
        }
    }

    private func handOver(to outgoing: TunnelPipe, isEnd: Bool) {
        if outgoing.source.beginTransfer() { return machine.transfers() }
        receivedBytes += burstBytes
        reportBytes(atLeast: Self.reportedBytes)
        let hasRoom = outgoing.push(&burst, bytes: burstBytes, isEnd: isEnd)
        burstBytes = 0
        let isComplete = machine.handedOver(hasRoom: hasRoom)
        outgoing.deliver()
        if isComplete { context?.close(promise: nil) }
    }

    func resume() { if machine.resumes() { context?.read() } }

    // MARK: Out

    /// Writes the bytes that the other side has read, with one flush.
    func drain() {
        guard machine.isGreeted, let context, let pipe = pipes?.incoming else { return }
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
        guard pipe.wrote(bytes) else { return }
        switch machine.outputDone() {
        case .closeOutput: context?.close(mode: .output, promise: nil)
        case .close: context?.close(promise: nil)
        case nil: break
        }
    }

    // MARK: The end

    package func channelInactive(context: ChannelHandlerContext) {
        switch machine.broken() {
        case .nothing: break
        case .abort: pipes?.outgoing.sink.abort()
        case .abortIfCurrent(let generation): if gate.use(tunnel, generation: generation) { pipes?.outgoing.sink.abort() }
        }
        reportBytes(atLeast: 1)
        context.fireChannelInactive()
    }

    private func reportBytes(atLeast least: Int) {
        guard receivedBytes + sentBytes >= least else { return }
        metrics.passed(received: receivedBytes, sent: sentBytes, by: greeting.transport)
        (receivedBytes, sentBytes) = (0, 0)
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
