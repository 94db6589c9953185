// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// The channel handler of a session, behind TLS. It feeds the state machine and performs its actions. All work happens on the event loop,
/// without a thread change for each frame. Tasks enter through `SessionLink`, and are resumed from here.
///
/// The handler never stops reading. Windows, budgets and the number of unsent responses bound the memory that a peer can occupy. If both
/// sides stopped reading while they cannot write, the session would deadlock.
final class SessionHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The inputs of a session.
    struct Environment {
        let role: SessionStateMachine.Role
        let limits: Limits
        var timing = SessionTiming()
        let memory: SessionMemory
        let admit: SessionAdmitter
        /// The endpoint id that TLS has proved.
        let peer: @Sendable () -> EndpointID?
        var bulk = BulkStart.never
        let startTimeout: TimeAmount
    }

    private static let framesAtOnce = 64
    /// The buffer of actions is kept up to this capacity.
    private static let keptActions = 1_024

    enum Start {
        case handshaking
        case greeting
        /// The stream is a bulk stream. These are the first bytes of its token.
        case token(ByteBuffer)
        case done
        /// A bulk stream has taken over the channel.
        case replaced
    }

    private struct Tick {
        let time: Duration
        let instant: ContinuousClock.Instant
    }

    let environment: Environment
    /// Called once, with the established session or the error.
    var started: (@Sendable (Result<PeerLink, SessionStartError>) -> Void)?
    var machine: SessionStateMachine
    var link: SessionLink?
    var peer: EndpointID?
    private var decoder = SessionFrameDecoder()
    private var actions: [SessionAction] = []
    private var performed: [SessionAction] = []
    private var isPerforming = false
    var start = Start.handshaking
    private(set) var context: ChannelHandlerContext?
    private var epoch = NIODeadline.uptimeNanoseconds(0)
    private var currentTick: Tick?

    // The state of waiting tasks and running services.
    var asks = SessionAskTable()
    var inboxes: [SessionConnectionID: AppServiceInbox] = [:]
    var exchanges: [SessionRequestID: SessionExchange] = [:]
    var responses: [SessionRequestID: SentAnswer] = [:]
    /// Connections that the peer opened and no service has accepted yet.
    var offered: Set<SessionConnectionID> = []
    var serving: [SessionConnectionID: Task<Void, Never>] = [:]
    /// The peer's share of the endpoint's memory; `nil` before the peer is known.
    var memory: SessionMemory.Share?
    var pending: PendingMemory?
    /// The claims of large messages that wait for memory: at most one of each kind.
    var claims: [SessionFrame.MessageKind: SharedBudget.Ticket] = [:]
    /// One limiter for each service, shared by all connections.
    var handlerLimiters = HandlerLimiter.Table()

    // Outgoing data, and timers.
    var outgoing = ByteBuffer()
    var needsFlush = false
    var repliesMarked: UInt64 = 0
    /// Responses that are written but not flushed.
    var leaving = AnswerPlace()
    var isWritingScheduled = false
    var timer: (at: Duration, scheduled: Scheduled<Void>)?
    var startTimer: Scheduled<Void>?
    var closeTimer: Scheduled<Void>?

    init(_ environment: Environment, started: @escaping @Sendable (Result<PeerLink, SessionStartError>) -> Void) {
        self.environment = environment
        self.started = started
        machine = SessionStateMachine(role: environment.role, limits: environment.limits, timing: environment.timing)
    }

    /// The time since the handler was added. It does not change until `settle`, to avoid reading the clock for each message.
    var now: Duration { tick.time }

    /// The same time as an instant of the continuous clock.
    var instant: ContinuousClock.Instant { tick.instant }

    private var tick: Tick {
        if let currentTick { return currentTick }
        let tick = Tick(time: .nanoseconds(((context?.eventLoop.now ?? .now()) - epoch).nanoseconds), instant: .now)
        currentTick = tick
        return tick
    }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        epoch = context.eventLoop.now
        let isolated = context.eventLoop.assumeIsolated()
        startTimer = isolated.scheduleTask(in: environment.startTimeout) { self.failStart(.timedOut) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        if case .replaced = start {} else { streamEnded() }
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        streamEnded()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch start {
        case .handshaking: return
        case .token(let before): return receiveToken(unwrapInboundIn(data), after: before, context)
        case .replaced: return context.fireChannelRead(data)
        case .greeting, .done: break
        }
        guard machine.end == nil else { return }
        machine.receivedBytes(at: now)
        decoder.append(unwrapInboundIn(data))
        if case .greeting = start, receive(maximumFrames: 1) > 0, machine.end == nil { succeedStart() }
        // Up to `framesAtOnce` frames are decoded before their actions are performed: the peer sent them without knowing the results. The
        // limit bounds the memory of the actions.
        while receive(maximumFrames: Self.framesAtOnce) > 0 {}
    }

    private func receive(maximumFrames: Int) -> Int {
        var count = 0
        change { count = $0.receive(from: &decoder, maximumFrames: maximumFrames, at: $1, into: &$2) }
        return count
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        settle()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, machine.hasData { scheduleWriting() }
        context.fireChannelWritabilityChanged()
    }

    // MARK: The machine

    /// Feeds the machine and performs its actions.
    func change(_ body: (inout SessionStateMachine, Duration, inout [SessionAction]) -> Void) {
        body(&machine, now, &actions)
        performActions()
    }

    /// Feeds the machine an event without a time. A later call of `performActions` performs the actions together with others.
    func feed(_ body: (inout SessionStateMachine, inout [SessionAction]) -> Void) { body(&machine, &actions) }

    func performActions() {
        guard !isPerforming else { return }
        isPerforming = true
        // An action may feed the machine again.
        while !actions.isEmpty {
            swap(&actions, &performed)
            for action in performed { perform(action) }
            performed.removeAll(keepingCapacity: performed.capacity <= Self.keptActions)
        }
        isPerforming = false
    }

    // MARK: Actions of the machine

    func perform(_ action: SessionAction) {
        switch action {
        case .send(let frame): write(frame)
        case .streamLost: context?.close(promise: nil)

        case .openReceived(let id, let opening): opened(id, opening)
        case .openSucceeded(let id): openSucceeded(id)
        case .openFailed(let id, let failure): asks.remove(Self.key(of: id))?.fail(AppServiceError(open: failure))
        case .connectionClosed(let id, let end): connectionClosed(id, end)

        case .requestReceived(let request, let message, let timeLeft, let receipt):
            deliver(request, message, timeLeft: timeLeft, receipt)
        case .requestCancelled(let request): cancelled(request)
        case .responseFinished(let request, let wasSent):
            guard let answer = responses.removeValue(forKey: request) else { break }
            finish(answer, wasSent ? .success(()) : .failure(AppServiceError(.cancelled)))

        case .responseReceived(let request, let message, let receipt): responded(request, message, receipt)
        case .requestFailed(let request, let failure): asks.remove(request)?.fail(AppServiceError(request: failure))

        case .reserve(let bytes, let kind): reserve(bytes, for: kind)
        case .release(let bytes, let kind): memory?[arriving: kind].release(bytes)

        case .ended(let end): ended(end)
        }
    }

    func deliver(_ request: SessionRequestID, _ message: ByteBuffer, timeLeft: Duration?, _ receipt: MessageCredit) {
        guard let link, let inbox = inboxes[request.connection] else {
            fail(request, SessionFailure(.appServiceConnectionClosed))
            return credit(receipt)
        }
        // A small message is part of its request's fixed amount. Any other message occupies its window or the memory for large messages
        // until it is decoded.
        let isSmall = message.readableBytes <= SessionMemory.smallBytes && receipt.assemblyBytes == 0
        guard pending?.add(isSmall ? 0 : receipt.pendingBytes) == true else {
            fail(request, SessionFailure(.resourceLimitsExceeded, "too many requests wait for this app; wait for others to end"))
            return credit(receipt)
        }
        if isSmall { credit(receipt) }
        let exchange = SessionExchange(
            request,
            message: message,
            deadline: timeLeft.map { instant + $0 },
            receipt: isSmall ? nil : receipt,
            link: link
        )
        exchanges[request] = exchange
        inbox.deliver(exchange)
    }

    // MARK: Flush and timers

    /// Call this after one or more changes. It sends waiting data and sets the timer.
    func settle() {
        sendData()
        flush()
        setTimer()
        pending?.trim(keepsStep: machine.end == nil)
        currentTick = nil
    }
}
