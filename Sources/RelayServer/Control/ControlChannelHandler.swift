// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
package import NIOCore
import RelayLog
package import RelayProtocol

/// The control channel on its event loop. It passes bytes and times to the state machine, and carries out its actions.
package final class ControlChannelHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private enum Incoming {
        case messages
        /// The client has violated the WebSocket protocol: its bytes are ignored.
        case violation
        /// The client has sent a close frame: what follows is ignored.
        case closeFrame
    }

    private let services: ControlServices
    private let client: IPAddress?
    private let welcomed: () -> Void
    private var machine: RelayChannelStateMachine
    private var reader: WebSocketReader
    private var incoming = Incoming.messages
    private var budget = ReadBudget()
    private var reads = ReadGate()
    private var isCounted = false
    /// Set while more inputs follow at once: they share one flush, and one look at the deadlines.
    private var isInBatch = false
    private var outgoing = OutgoingFrames()
    private var pongs = PongQueue()
    /// The endpoint whose hello is being checked.
    private var claimed: EndpointID?
    private var greeted = ContinuousClock.now
    private var context: ChannelHandlerContext?
    private var requests: ChannelRequests?
    private var timer = DeadlineTimer()
    private var closeTimer: Scheduled<Void>?

    /// - Parameters:
    ///   - client: the address of the endpoint, which behind a proxy is not the channel's.
    ///   - welcomed: called when the endpoint is authenticated.
    package init(services: ControlServices, channel: any Channel, client: IPAddress?, welcomed: @escaping () -> Void) {
        self.services = services
        self.welcomed = welcomed
        self.client = client
        self.machine = services.makeStateMachine(on: channel.localAddress, from: client)
        self.reader = WebSocketReader(maximumMessageBytes: services.settings.limits[.controlFrameBytesBeforeWelcome])
    }

    private var now: RelayChannelStateMachine.Moment { services.clock.now() }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        requests = ChannelRequests(services, of: self, from: client, on: context.eventLoop)
        run(machine.opened(now))
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        run(machine.disconnected())
        timer.cancel()
        closeTimer?.cancel()
        requests?.cancel()
        requests = nil
        self.context = nil
    }

    package func channelInactive(context: ChannelHandlerContext) {
        run(machine.disconnected())
        context.fireChannelInactive()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Self.unwrapInboundIn(data)
        isInBatch = true
        let isBudgetUsed = budget.read(bytes.readableBytes)
        if incoming == .messages {
            machine.bytesArrived(now)
            reader.append(bytes)
            if reads.isOpen { readMessages(context: context) }
        }
        if isBudgetUsed { pauseReading(context: context) }
    }

    private func readMessages(context: ChannelHandlerContext) {
        do throws(WebSocketReader.Violation) {
            var bytes = 0
            while !ReadBudget.isUsed(by: bytes) {
                guard incoming == .messages, !reads.isHeld(by: .receiver), let event = try reader.next() else { return }
                received(event)
                bytes += ReadBudget.cost(of: event)
            }
        } catch {
            incoming = .violation
            return run(machine.violated(error))
        }
        pauseReading(context: context)
    }

    private func pauseReading(context: ChannelHandlerContext) {
        guard budget.pause() else { return }
        reads.hold(.budget)
        context.eventLoop.assumeIsolated().scheduleTask(in: ReadBudget.pause) {
            self.budget.renew()
            self.reads.release(.budget)
            self.readOn()
        }
    }

    /// The core accepts messages again.
    func resume() {
        reads.release(.receiver)
        // Scheduled like all other reads, not ahead of the messages of other channels.
        if let context { pauseReading(context: context) }
    }

    private func readOn() {
        guard let context, reads.isOpen else { return }
        isInBatch = true
        if incoming != .violation { readMessages(context: context) }
        endBatch()
        switch reads.takeWaiting() {
        case .read: context.read()
        case .end: inputClosed(context: context)
        case nil: break
        }
    }

    package func read(context: ChannelHandlerContext) {
        if reads.passes(.read) { context.read() }
    }

    private func inputClosed(context: ChannelHandlerContext) {
        run(machine.disconnected())
        context.close(promise: nil)
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        endBatch()
        context.fireChannelReadComplete()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            // Messages received before the end of the input are still handled.
            if reads.passes(.end) { inputClosed(context: context) }
        case is ChannelShouldQuiesceEvent:
            run(machine.relayStops())
        default:
            context.fireUserInboundEventTriggered(event)
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        run(machine.disconnected())
        context.close(promise: nil)
    }

    /// Sends the messages of the core, in order.
    func deliver(_ items: [ChannelPeer.Item]) {
        isInBatch = true
        defer { endBatch() }
        for item in items {
            switch item {
            case .message(let message, let whenWritten):
                run(machine.peerSends(message, now))
                if let whenWritten, !outgoing.callWhenWritten(whenWritten) { whenWritten() }
            case .close(let code, let reason): run(machine.peerCloses(code: code, reason: reason))
            }
        }
    }

    private func received(_ event: WebSocketReader.Event) {
        switch event {
        case .text(let frame):
            services.metrics.receivedMessage()
            run(machine.received(frame, now))
        case .ping(let payload):
            pong(pongs.received(payload))
            flushIfNeeded()
        case .pong, .fragment:
            break
        case .close(let code):
            incoming = .closeFrame
            if machine.isClosed { context?.close(promise: nil) } else { run(machine.receivedClose(code: code)) }
        }
    }
}

// Carries out the actions of the state machine.
extension ControlChannelHandler {
    /// Passes an input to the state machine.
    func input(
        _ body: (inout RelayChannelStateMachine, RelayChannelStateMachine.Moment) -> [RelayChannelStateMachine.Action]
    ) {
        run(body(&machine, now))
    }

    private func run(_ actions: [RelayChannelStateMachine.Action]) {
        for action in actions { perform(action) }
        if outgoing.bytes > services.outboundBytes, !machine.isClosed {
            for action in machine.outboundOverflowed() { perform(action) }
            // The endpoint would not read the close frame either.
            context?.close(promise: nil)
        }
        if !isInBatch { endBatch() }
    }

    private func endBatch() {
        isInBatch = false
        flushIfNeeded()
        setTimer()
    }

    private func perform(_ action: RelayChannelStateMachine.Action) {
        switch action {
        case .send(let message): send(message)
        case .ping: write(opcode: .ping, ByteBuffer())
        case .checkToken(let token, let endpointKey):
            claimed = EndpointID(endpointKey)
            greeted = .now
            requests?.checkToken(token.exposed, endpointKey: endpointKey)
        case .connect(let hello): requests?.connect(hello)
        case .welcomed:
            reader.maximumMessageBytes = services.settings.limits[.controlFrameBytes]
            context?.channel.readsMessages()
            isCounted = true
            services.metrics.welcomed(after: ContinuousClock.now - greeted)
            welcomed()
        case .forward(let message, let channel):
            if services.core.receive(message, on: channel) {
                reads.release(.receiver)
            } else {
                reads.hold(.receiver)
                services.metrics.held()
            }
        case .link(let identity, let ref, let channel): services.core.link(identity, ref: ref, on: channel)
        case .follow(let logins): requests?.follow(logins)
        case .disconnected(let channel, let isSilent):
            if isCounted {
                isCounted = false
                services.metrics.left()
            }
            services.core.disconnected(channel, isSilent: isSilent)
        case .close(let code, let reason): close(code: code, reason: reason)
        }
    }

    /// Takes the machine `inout`, because access through a property of this object would copy it.
    private static func deadline(of machine: inout RelayChannelStateMachine) -> Milliseconds? { machine.deadline }

    private func setTimer() {
        guard let context, !machine.isClosed else { return }
        guard let deadline = Self.deadline(of: &machine) else { return timer.cancel() }
        guard !timer.fires(by: deadline) else { return }
        timer.set(deadline, now: now.uptime, on: context.eventLoop) {
            self.timer.fired()
            self.input { $0.handleDeadlines($1, hasUnread: context.channel.hasUnreadBytes) }
        }
    }
}

// Outgoing frames.
extension ControlChannelHandler {
    private func send(_ message: RelayMessage) {
        do throws(ControlFrameError) {
            if case .welcome(let welcome) = message, let frame = services.frame(of: welcome) {
                write(opcode: .text, frame)
            } else {
                write(opcode: .text, try message.encode(limits: services.settings.limits))
            }
            services.metrics.sentMessage()
            if case .rejected(let rejected) = message { refused(rejected) }
        } catch {
            services.logger.error("a message cannot be sent", metadata: ["reason": "\(error)"])
        }
    }

    /// The first hello of a device that joins asks for its account: its answer is no refusal.
    private func refused(_ rejected: RelayMessage.Rejected) {
        guard rejected.code != .wrongAccount || !rejected.retry else { return }
        services.metrics.rejected(code: rejected.code.rawValue)
        services.events(
            .refused(endpoint: claimed?.label ?? "", address: client?.description ?? "", code: rejected.code.rawValue)
        )
    }

    private func write(opcode: WebSocketHeader.Opcode, _ payload: ByteBuffer, then done: (() -> Void)? = nil) {
        if context != nil { outgoing.append(opcode: opcode, payload, then: done) }
    }

    private func pong(_ payload: ByteBuffer?) {
        guard let payload, !machine.isClosed else { return }
        write(opcode: .pong, payload) {
            self.pong(self.pongs.sent())
            self.flushIfNeeded()
        }
    }

    /// One write for all frames of one read, or of one batch of the core.
    private func flushIfNeeded() {
        guard let context, !isInBatch, let batch = outgoing.takeBatch() else { return }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in
            for done in self.outgoing.written(batch) { done() }
        }
        context.writeAndFlush(Self.wrapOutboundOut(batch.frames), promise: written)
    }

    private func close(code: UInt16, reason: String) {
        guard let context else { return }
        services.metrics.closed(code: code)
        services.logger.debug("control channel closes", metadata: ["code": "\(code)", "reason": "\(reason)"])
        write(opcode: .close, ByteBuffer(closeCode: code, reason: reason)) {
            if self.incoming == .closeFrame { context.close(promise: nil) }
        }
        timer.cancel()
        closeTimer = context.closeSoon()
    }
}
