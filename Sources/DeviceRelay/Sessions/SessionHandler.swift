// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// A session: it feeds the state machine with the frames of its stream and the calls of the app, and performs its actions. All work happens on
/// one event loop, without a thread change for each frame. Tasks enter through `SessionLink`, and are resumed from here. The stream below
/// may be replaced by another one on the same loop.
///
/// The handler stops reading only while it asks to move. Windows, budgets and the number of unsent responses bound the memory that a peer
/// can occupy. If both sides stopped reading while they cannot write, the session would deadlock.
final class SessionHandler {
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
        /// The sessions that peers may move; `nil` if sessions end with their streams.
        var movable: MovableSessions?
        /// Whether the stream leads to the peer without the relay.
        var isDirect = false

        fileprivate var offer: SessionStateMachine.MoveOffer {
            guard movable != nil else { return .none }
            var random = SystemRandomNumberGenerator()
            return role == .server ? .acceptor : .opener(SessionID(using: &random))
        }
    }

    private static let framesAtOnce = 64
    /// The buffer of actions is kept up to this capacity.
    private static let keptActions = 1_024

    private struct Tick {
        let time: Duration
        let instant: ContinuousClock.Instant
    }

    let environment: Environment
    let eventLoop: any EventLoop
    let peer: EndpointID
    var machine: SessionStateMachine
    var link: SessionLink?
    /// The established session.
    var session: PeerSession?
    /// The id by which the peer may move the session.
    var movableID: SessionID?
    /// Decides which service the peer may use: otherwise on another path.
    var admit: SessionAdmitter
    /// The stream that the session uses; `nil` while it waits for one, and at last.
    var stream: SessionStream?
    /// The stream to which this side asks to move the session.
    var asking: SessionStream?
    var isShuttingDown = false
    private var actions: [SessionAction] = []
    private var performed: [SessionAction] = []
    private var isPerforming = false
    private let epoch: NIODeadline
    private var currentTick: Tick?

    // The state of waiting tasks and running services.
    var asks = SessionAskTable()
    var inboxes: [SessionConnectionID: AppServiceInbox] = [:]
    var exchanges: [SessionRequestID: SessionExchange] = [:]
    var responses: [SessionRequestID: SentAnswer] = [:]
    /// Connections that the peer opened and no service has accepted yet.
    var offered: Set<SessionConnectionID> = []
    var serving: [SessionConnectionID: Task<Void, Never>] = [:]
    /// The peer's share of the endpoint's memory.
    let memory: SessionMemory.Share
    var pending: PendingMemory
    /// The claims of large messages that wait for memory: at most one of each kind.
    var claims: [SessionFrame.MessageKind: SharedBudget.Ticket] = [:]
    /// One limiter for each service, shared by all connections.
    var handlerLimiters = HandlerLimiter.Table()

    // Outgoing data, and timers.
    var repliesMarked: UInt64 = 0
    /// Responses that are written but not flushed.
    var leaving = AnswerPlace()
    var isWritingScheduled = false
    var timer: (at: Duration, scheduled: Scheduled<Void>)?
    var closeTimer: Scheduled<Void>?

    init(_ environment: Environment, with peer: EndpointID, on stream: SessionStream, _ eventLoop: any EventLoop) {
        self.environment = environment
        self.peer = peer
        self.stream = stream
        self.eventLoop = eventLoop
        admit = environment.admit
        epoch = eventLoop.now
        memory = environment.memory.share(of: peer)
        pending = PendingMemory(share: memory.pending)
        machine = SessionStateMachine(
            role: environment.role,
            limits: environment.limits,
            timing: environment.timing,
            offer: environment.offer
        )
        link = SessionLink(handler: self, memory: memory, isDirect: environment.isDirect)
    }

    /// The time since the session began. It does not change until `settle`, to avoid reading the clock for each message.
    var now: Duration { tick.time }

    /// The same time as an instant of the continuous clock.
    var instant: ContinuousClock.Instant { tick.instant }

    private var tick: Tick {
        if let currentTick { return currentTick }
        let tick = Tick(time: .nanoseconds((eventLoop.now - epoch).nanoseconds), instant: .now)
        currentTick = tick
        return tick
    }

    // MARK: The stream

    /// Handles the frames that have arrived on a stream.
    func received(on stream: SessionStream) {
        guard self.stream === stream, machine.end == nil else { return }
        machine.receivedBytes(at: now)
        // Up to `framesAtOnce` frames are decoded before their actions are performed: the peer sent them without knowing the results. The
        // limit bounds the memory of the actions.
        while receive(on: stream, maximumFrames: Self.framesAtOnce) > 0 {}
    }

    /// - Returns: The number of frames that were handled.
    func receive(on stream: SessionStream, maximumFrames: Int) -> Int {
        guard self.stream === stream else { return 0 }
        var count = 0
        change { count = $0.receive(from: &stream.decoder, maximumFrames: maximumFrames, at: $1, into: &$2) }
        return count
    }

    func becameWritable(_ stream: SessionStream) {
        if self.stream === stream, machine.hasData { scheduleWriting() }
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
        case .send(let frame): stream?.write(frame)
        case .streamLost: streamLost()

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
        case .release(let bytes, let kind): memory[arriving: kind].release(bytes)

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
        guard pending.add(isSmall ? 0 : receipt.pendingBytes) else {
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
        pending.trim(keepsStep: machine.end == nil)
        currentTick = nil
    }
}
