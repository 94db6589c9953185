// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
package import NIOCore
import RelayProtocol

/// The control channel on its event loop. It passes bytes and times to the state machine, and carries out its actions.
package final class ControlChannelHandler: ChannelDuplexHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// Only its read budget is used here.
    private static let policy = AdmissionPolicy.standard

    private let services: ControlServices
    private let welcomed: () -> Void
    private var machine: RelayChannelStateMachine
    private var reader: WebSocketReader
    /// The client has violated the WebSocket protocol, so its bytes are no longer read.
    private var isReaderBroken = false
    private var hasPeerClosed = false
    /// The read budget is used, and the next iteration is scheduled; nothing is read until then.
    private var isBudgetUsed = false
    /// The core has paused this channel; nothing is read until `resume`.
    private var isHeld = false
    /// The bytes that count in the current read budget.
    private var bytesRead = 0
    private var isReadWanted = false
    private var isInputClosed = false
    private var isCounted = false
    /// Set while more frames may join the next flush.
    private var isHoldingFlush = false
    /// The frames of the next flush, sent as one write. If the endpoint does not read, there are few buffers to free instead of
    /// thousands.
    private var outgoing = Outgoing()
    /// All unsent bytes, with `outgoing`.
    private var outboundBytes = 0
    private var pongs = PongQueue()
    private var context: ChannelHandlerContext?
    private var observers: [RevocationObserver] = []
    private var timer: Scheduled<Void>?
    /// When the timer fires; valid only with a timer.
    private var timerDeadline: Milliseconds = 0

    /// - Parameters:
    ///   - client: the address of the endpoint, which behind a proxy is not the channel's.
    ///   - welcomed: called when the endpoint is authenticated.
    package init(services: ControlServices, channel: any Channel, client: IPAddress?, welcomed: @escaping () -> Void) {
        self.services = services
        self.welcomed = welcomed
        self.machine = services.makeStateMachine(on: channel.localAddress, from: client)
        self.reader = WebSocketReader(maximumMessageBytes: services.settings.limits[.controlFrameBytesBeforeWelcome])
    }

    private var now: RelayChannelStateMachine.Moment { services.clock.now() }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        run(machine.opened(now))
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        run(machine.disconnected())
        timer?.cancel()
        timer = nil
        for observer in observers { observer.cancel() }
        self.context = nil
    }

    package func channelInactive(context: ChannelHandlerContext) {
        run(machine.disconnected())
        context.fireChannelInactive()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Self.unwrapInboundIn(data)
        isHoldingFlush = true
        bytesRead += bytes.readableBytes
        if !isReaderBroken, !hasPeerClosed {
            machine.bytesArrived(now)
            reader.append(bytes)
            if !isPaused { readMessages(context: context) }
        }
        if bytesRead >= Self.policy.readBudget { pauseReading(context: context) }
    }

    private func readMessages(context: ChannelHandlerContext) {
        do throws(WebSocketReader.Violation) {
            var bytes = 0
            while bytes < Self.policy.readBudget {
                guard !hasPeerClosed, !isHeld, let event = try reader.next() else { return }
                received(event)
                if case .text(let frame) = event {
                    bytes += max(frame.readableBytes, Self.policy.minimumPerMessage)
                } else {
                    bytes += Self.policy.frameOverhead
                }
            }
        } catch {
            isReaderBroken = true
            return run(machine.violated(error))
        }
        pauseReading(context: context)
    }

    private func pauseReading(context: ChannelHandlerContext) {
        guard !isBudgetUsed else { return }
        isBudgetUsed = true
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.policy.readBudgetPause) { self.renewBudget() }
    }

    private var isPaused: Bool { isBudgetUsed || isHeld }

    private func renewBudget() {
        isBudgetUsed = false
        bytesRead = 0
        readOn()
    }

    /// The core accepts messages again.
    func resume() {
        isHeld = false
        // Scheduled like all other reads, not ahead of the messages of other channels.
        if let context { pauseReading(context: context) }
    }

    private func readOn() {
        guard let context, !isPaused else { return }
        isHoldingFlush = true
        if !isReaderBroken { readMessages(context: context) }
        isHoldingFlush = false
        flushIfNeeded()
        guard !isPaused else { return }
        if isInputClosed { return inputClosed(context: context) }
        guard isReadWanted else { return }
        isReadWanted = false
        context.read()
    }

    package func read(context: ChannelHandlerContext) {
        if isPaused { isReadWanted = true } else { context.read() }
    }

    private func inputClosed(context: ChannelHandlerContext) {
        run(machine.disconnected())
        context.close(promise: nil)
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        isHoldingFlush = false
        flushIfNeeded()
        context.fireChannelReadComplete()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            // Messages received before the end of the input are still handled.
            if isPaused { isInputClosed = true } else { inputClosed(context: context) }
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
        isHoldingFlush = true
        defer {
            isHoldingFlush = false
            flushIfNeeded()
        }
        for item in items {
            switch item {
            case .message(let message): run(machine.peerSends(message, now))
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
            hasPeerClosed = true
            if machine.isClosed { context?.close(promise: nil) } else { run(machine.receivedClose(code: code)) }
        }
    }
}

// Carries out the actions of the state machine.
extension ControlChannelHandler {
    private func run(_ actions: [RelayChannelStateMachine.Action]) {
        for action in actions { perform(action) }
        if outboundBytes > services.outboundBytes, !machine.isClosed {
            for action in machine.outboundOverflowed() { perform(action) }
            // The endpoint would not read the close frame either.
            context?.close(promise: nil)
        }
        flushIfNeeded()
        setTimer()
    }

    private func perform(_ action: RelayChannelStateMachine.Action) {
        switch action {
        case .send(let message): send(message)
        case .ping: write(opcode: .ping, ByteBuffer())
        case .checkToken(let token, let endpointKey): checkToken(token.exposed, endpointKey: endpointKey)
        case .connect(let hello): connect(hello)
        case .welcomed:
            reader.maximumMessageBytes = services.settings.limits[.controlFrameBytes]
            context?.channel.readsMessages()
            isCounted = true
            services.metrics.welcomed()
            welcomed()
        case .forward(let message, let channel):
            isHeld = !services.core.receive(message, on: channel)
            if isHeld { services.metrics.held() }
        case .follow(let logins): follow(logins)
        case .disconnected(let channel, let isSilent):
            if isCounted {
                isCounted = false
                services.metrics.left()
            }
            services.core.disconnected(channel, isSilent: isSilent)
        case .close(let code, let reason): close(code: code, reason: reason)
        }
    }

    private func checkToken(_ token: String, endpointKey: SigningPublicKey) {
        guard let eventLoop = context?.eventLoop else { return }
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        services.verify(token: token, endpointKey: endpointKey) { result in
            eventLoop.execute {
                let handler = handler.value
                handler.run(handler.machine.tokenChecked(result, handler.now))
            }
        }
    }

    private func connect(_ hello: ProvedHello) {
        guard let eventLoop = context?.eventLoop else { return }
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        services.core.connect(hello, peer: ChannelPeer(handler: self, eventLoop: eventLoop)) { result in
            eventLoop.execute {
                let handler = handler.value
                handler.run(handler.machine.coreAnswered(result, handler.now))
            }
        }
    }

    private func follow(_ logins: [Login]) {
        for observer in observers { observer.cancel() }
        guard let eventLoop = context?.eventLoop else { return observers = [] }
        let handler = NIOLoopBound(self, eventLoop: eventLoop)
        observers = logins.map { login in
            services.tokens.follow(login) {
                eventLoop.execute {
                    let handler = handler.value
                    handler.run(handler.machine.loginRevoked(login, handler.now))
                }
            }
        }
    }

    /// Takes the machine `inout`, because access through a property of this object would copy it.
    private static func deadline(of machine: inout RelayChannelStateMachine) -> Milliseconds? { machine.deadline }

    private func setTimer() {
        let deadline = Self.deadline(of: &machine)
        // If the deadline has moved later, the timer fires early once. That costs less than a new timer for every message.
        if timer != nil, let deadline, timerDeadline <= deadline { return }
        guard let context, let deadline else {
            if !machine.isClosed { timer?.cancel() }
            return
        }
        timer?.cancel()
        let wait = TimeAmount.milliseconds((deadline - now.uptime).count)
        timer = context.eventLoop.assumeIsolated().scheduleTask(in: wait) {
            self.timer = nil
            self.run(self.machine.handleDeadlines(self.now, hasUnread: context.channel.hasUnreadBytes))
        }
        timerDeadline = deadline
    }
}

// Outgoing frames.
extension ControlChannelHandler {
    private func send(_ message: RelayMessage) {
        do throws(ControlFrameError) {
            if case .welcome = message, let frame = services.welcome {
                write(opcode: .text, frame)
            } else {
                write(opcode: .text, try message.encode(limits: services.settings.limits))
            }
            services.metrics.sentMessage()
            if case .rejected(let rejected) = message { services.metrics.rejected(code: rejected.code.rawValue) }
        } catch {
            services.logger.error("a message cannot be sent", metadata: ["reason": "\(error)"])
        }
    }

    private struct Outgoing {
        var frames = ByteBuffer()
        var count = 0
        var whenWritten: [() -> Void] = []
    }

    private func write(opcode: WebSocketHeader.Opcode, _ payload: ByteBuffer, then done: (() -> Void)? = nil) {
        guard context != nil else { return }
        let before = outgoing.frames.readableBytes
        outgoing.frames.reserveCapacity(minimumWritableBytes: payload.readableBytes + 10)
        outgoing.frames.writeWebSocketFrame(opcode: opcode, payload: payload)
        let count = outgoing.frames.readableBytes - before + Self.policy.frameOverhead
        outgoing.count += count
        outboundBytes += count
        if let done { outgoing.whenWritten.append(done) }
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
        guard let context, !isHoldingFlush, outgoing.frames.readableBytes > 0 else { return }
        let leaving = outgoing
        outgoing = Outgoing()
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in
            self.outboundBytes -= leaving.count
            for done in leaving.whenWritten { done() }
        }
        context.writeAndFlush(Self.wrapOutboundOut(leaving.frames), promise: written)
    }

    private func close(code: UInt16, reason: String) {
        guard let context else { return }
        services.metrics.closed(code: code)
        services.logger.debug("control channel closes", metadata: ["code": "\(code)", "reason": "\(reason)"])
        var payload = ByteBuffer(integer: code)
        payload.writeSubstring(reason.prefix(bytes: 123))
        write(opcode: .close, payload) {
            if self.hasPeerClosed { context.close(promise: nil) }
        }
        timer?.cancel()
        timer = context.closeSoon()
        timerDeadline = 0
    }
}

extension String {
    /// The longest prefix of complete characters that fits.
    fileprivate func prefix(bytes: Int) -> Substring {
        var end = startIndex
        var count = 0
        for index in indices {
            count += self[index].utf8.count
            guard count <= bytes else { break }
            end = self.index(after: index)
        }
        return self[..<end]
    }
}
