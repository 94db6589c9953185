// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOSSL
import NIOTLS
import RelayProtocol

/// A session in its channel, behind TLS: feeds the state machine, and does what it says. All of it happens on the event loop, without a hop
/// per frame; tasks come in through `SessionLink`, and are resumed from here.
///
/// Reading never stops. What a peer can make this side hold is bounded by windows, budgets and the number of answers that have not
/// left; were both sides to stop reading while they cannot write, neither would go on.
final class SessionHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// What a session is made of.
    struct Environment {
        let role: SessionStateMachine.Role
        let limits: Limits
        var timing = SessionTiming()
        let memory: SessionMemory
        let admit: SessionAdmitter
        /// The peer that TLS has proved.
        let peer: @Sendable () -> EndpointID?
        let startTimeout: TimeAmount
    }

    private static let framesAtOnce = 64
    /// Memory for so many actions is kept.
    private static let keptActions = 1_024

    private enum Start {
        case handshaking
        case greeting
        case done
    }

    private struct Turn {
        let time: Duration
        let instant: ContinuousClock.Instant
    }

    let environment: Environment
    /// Called once: the session stands, or does not come about.
    private var started: (@Sendable (Result<PeerSession, SessionStartError>) -> Void)?
    var machine: SessionStateMachine
    var link: SessionLink?
    private(set) var peer: EndpointID?
    private var decoder = SessionFrameDecoder()
    private var actions: [SessionAction] = []
    private var performed: [SessionAction] = []
    private var isPerforming = false
    private var start = Start.handshaking
    private(set) var context: ChannelHandlerContext?
    private var epoch = NIODeadline.uptimeNanoseconds(0)
    private var currentTurn: Turn?

    // Of the tasks that wait here.
    var asks = SessionAskTable()
    var inboxes: [SessionConnectionID: AppServiceInbox] = [:]
    var exchanges: [SessionRequestID: SessionExchange] = [:]
    var responses: [SessionRequestID: SentAnswer] = [:]
    /// The peer's wishes that no service has taken up.
    var offered: Set<SessionConnectionID> = []
    var serving: [SessionConnectionID: Task<Void, Never>] = [:]
    /// What the peer has of the endpoint's memory, once it is known.
    private(set) var memory: SessionMemory.Share?
    var pending: PendingMemory?
    /// For large messages that wait for memory: the session has one of each kind at most.
    var claims: [SessionFrame.MessageKind: SharedBudget.Ticket] = [:]
    /// Of each service, over all connections.
    var handlerLimiters = HandlerLimiter.Table()

    // What is on its way out, and when to look again.
    var outgoing = ByteBuffer()
    var needsFlush = false
    var repliesMarked: UInt64 = 0
    /// Answers that are written and not flushed.
    var leaving = AnswerPlace()
    var isTurnScheduled = false
    var timer: (at: Duration, scheduled: Scheduled<Void>)?
    private var startTimer: Scheduled<Void>?
    var closeTimer: Scheduled<Void>?

    init(_ environment: Environment, started: @escaping @Sendable (Result<PeerSession, SessionStartError>) -> Void) {
        self.environment = environment
        self.started = started
        machine = SessionStateMachine(role: environment.role, limits: environment.limits, timing: environment.timing)
    }

    /// The time since the handler was added; until `settle` it stands still, since a clock is not for every message.
    var now: Duration { turn.time }

    /// The same, for who does not know the handler.
    var instant: ContinuousClock.Instant { turn.instant }

    private var turn: Turn {
        if let currentTurn { return currentTurn }
        let turn = Turn(time: .nanoseconds(((context?.eventLoop.now ?? .now()) - epoch).nanoseconds), instant: .now)
        currentTurn = turn
        return turn
    }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        epoch = context.eventLoop.now
        let isolated = context.eventLoop.assumeIsolated()
        startTimer = isolated.scheduleTask(in: environment.startTimeout) { self.failStart(.timedOut) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        streamEnded()
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        streamEnded()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case TLSUserEvent.handshakeCompleted(negotiatedProtocol: let name):
            guard start == .handshaking, name == SessionWire.applicationProtocol, let peer = environment.peer() else {
                return failStart(.notAuthentic)
            }
            self.peer = peer
            let memory = environment.memory.share(of: peer)
            self.memory = memory
            pending = PendingMemory(share: memory.pending)
            link = SessionLink(channel: context.channel, handler: self, memory: memory)
            start = .greeting
            change { $0.start(at: $1, into: &$2) }
            settle()
        case ChannelEvent.inputClosed: context.close(promise: nil)
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        case NIOSSLError.uncleanShutdown: failStart(.broken)
        case NIOSSLError.handshakeFailed(.sslError(let stack)) where stack == [.eofDuringHandshake]: failStart(.broken)
        // Also the alert with which the other side refuses this one's certificate.
        case is NIOSSLError, is BoringSSLError, is NIOSSLExtraError: failStart(.notAuthentic)
        default: failStart(.broken)
        }
        context.close(promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard machine.end == nil, start != .handshaking else { return }
        machine.heard(at: now)
        decoder.append(unwrapInboundIn(data))
        if start == .greeting, receive(mostFrames: 1) > 0, machine.end == nil { succeedStart() }
        // Many before anything is done for them: the peer could not know of that before it sent them. Not all, so that what is to be done
        // for them does not take much memory.
        while receive(mostFrames: Self.framesAtOnce) > 0 {}
    }

    private func receive(mostFrames: Int) -> Int {
        var count = 0
        change { count = $0.receive(from: &decoder, mostFrames: mostFrames, at: $1, into: &$2) }
        return count
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        settle()
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable, machine.hasData { scheduleTurn() }
        context.fireChannelWritabilityChanged()
    }

    // MARK: The start

    private func succeedStart() {
        guard let link, let peer else { return }
        finishStart(.success(PeerSession(peer: peer, isOpenedHere: environment.role == .client, link: link)))
    }

    /// Before the session stands, ends it; after, does nothing.
    private func failStart(_ error: SessionStartError) {
        guard start != .done else { return }
        finishStart(.failure(error))
        context?.close(promise: nil)
    }

    private func finishStart(_ result: Result<PeerSession, SessionStartError>) {
        start = .done
        startTimer?.cancel()
        // Let go of: whoever waits for the session holds it.
        let started = started
        self.started = nil
        started?(result)
    }

    private func streamEnded() {
        change { $0.connectionLost(into: &$2) }
        failStart(.broken)
        timer?.scheduled.cancel()
        timer = nil
        closeTimer?.cancel()
        haveLeft(leaving)
        leaving = AnswerPlace()
        link = nil
    }

    // MARK: The machine

    /// Feeds the machine and does what it says.
    func change(_ body: (inout SessionStateMachine, Duration, inout [SessionAction]) -> Void) {
        body(&machine, now, &actions)
        performActions()
    }

    /// Feeds the machine what needs no time. What it says is done with what it says to other things: by `performActions`, which comes after.
    func feed(_ body: (inout SessionStateMachine, inout [SessionAction]) -> Void) { body(&machine, &actions) }

    func performActions() {
        guard !isPerforming else { return }
        isPerforming = true
        // What is done may feed the machine again.
        while !actions.isEmpty {
            swap(&actions, &performed)
            for action in performed { perform(action) }
            performed.removeAll(keepingCapacity: performed.capacity <= Self.keptActions)
        }
        isPerforming = false
    }

    /// After one or more changes: sends what waits, and looks when something is due.
    func settle() {
        sendData()
        flush()
        setTimer()
        pending?.trim(keepsStep: machine.end == nil)
        currentTurn = nil
    }
}
