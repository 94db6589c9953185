// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import NIOCore
import RelayProtocol

/// The control channel. It performs the actions of the channel's state machine, and feeds it with events. It passes messages, and the start
/// and end of the connection, to `onEvent`, in order.
final class ControlLink: ControlSending {
    enum Event {
        case connected(RelayMessage.Welcome)
        case disconnected(DisconnectReason)
        case message(RelayMessage)
    }

    private let endpoint: EndpointContext
    private let clock: RelayClock
    private let storage: StorageGuard
    private let identity: OwnIdentity
    let dialer: RelayDialer
    /// Identifies this process to the relay. After a newer connection of the same process, the relay ignores the older one.
    private let instance = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
    private var random = SystemRandomNumberGenerator()
    var onEvent: (Event) -> Void = { _ in }
    /// Waits until the work is done that the messages so far have caused.
    var finishWork: @Sendable () async -> Void = {}

    private var machine: EndpointChannelStateMachine
    private var actions: [EndpointChannelStateMachine.Action] = []
    private var isPerforming = false
    private var timer: (due: Int64, scheduled: Scheduled<Void>)?
    private var answers: [RequestRef: (ControlAnswer) -> Void] = [:]
    /// Messages that wait for room on the connection.
    private(set) var waitingForRoom: [() -> Void] = []
    private(set) var readAhead = ReadAhead()
    /// Those who wait until the network has taken what is to be sent.
    private(set) var waitingForNetwork: [CheckedContinuation<Void, Never>] = []
    /// Why there is no connection.
    private(set) var problem: ConnectionError?
    /// Why the endpoint leaves, until the connection has ended.
    private var leavingProblem: ConnectionError?
    private var isPaused = false
    /// The token provider's error, set only while the machine handles it.
    private var tokenError: AccessTokenError?
    private var hasEnded = false
    /// The URLs that the relay named for reconnecting. They are stored, so that a relay that has moved is found after a restart.
    private(set) var relayURLs: [String]

    init(_ endpoint: EndpointContext, clock: RelayClock, storage: StorageGuard, identity: OwnIdentity, relayURLs: [String]) {
        self.endpoint = endpoint
        self.clock = clock
        self.storage = storage
        self.identity = identity
        self.relayURLs = relayURLs
        self.dialer = RelayDialer(endpoint)
        machine = EndpointChannelStateMachine(role: .client, relay: endpoint.relay)
        machine.urls = relayURLs
        dialer.onEvent = { [weak self] event, attempt in self?.take(event, of: attempt) }
    }

    private var loop: EndpointLoop { endpoint.loop }

    // MARK: State

    var isHost: Bool { machine.role == .host }
    var isConnected: Bool { if case .connected = machine.status { true } else { false } }
    var isStopped: Bool { if case .stopped = machine.status { true } else { false } }
    var limits: Limits { machine.limits }
    /// The address of the latest connection.
    var dialled: RelayAddress { dialer.address }

    // MARK: Start and end

    func start() {
        guard !endpoint.isAnonymous else { return }
        isPaused = false
        leavingProblem = nil
        perform(machine.start(now: loop.now))
    }

    func leave(_ reason: EndpointMessage.Leaving.Reason) { perform(machine.leave(reason, now: loop.now)) }

    /// Disconnects with this problem as the reported reason.
    func leave(because problem: ConnectionError) {
        isPaused = false
        leavingProblem = problem
        self.problem = problem
        leave(.suspended)
        publishStatus()
    }

    /// Stays disconnected while the app is asked, until `start` or `leave(because:)`. This is no problem.
    func pauseForQuestion() {
        isPaused = true
        leave(.suspended)
    }

    /// Retries now, because the network has changed or an obstacle is gone.
    func retryNow() { perform(machine.networkChanged(now: loop.now, random: &random)) }

    /// Connects again after the reason of a rejection was resolved.
    func startAgain(atOnce: Bool) {
        problem = nil
        start()
        if atOnce { retryNow() }
    }

    /// Changes to the host role from the next connection on, and ends the current connection.
    /// - Returns: Whether the link was connected or connecting.
    func becomeHost() -> Bool {
        let wasActive = !isStopped
        leave(.suspended)
        var host = EndpointChannelStateMachine(role: .host, relay: endpoint.relay)
        // The attempt number continues, so that late events of the old connection are ignored.
        host.attempt = machine.attempt
        host.urls = machine.urls
        machine = host
        return wasActive
    }

    /// Waits until no connection is open. Each connection closes within seconds, even if the relay does not answer.
    func closed() async { await dialer.closed() }

    /// Prevents further connections and timers.
    func end() {
        hasEnded = true
        dialer.end()
        timer?.scheduled.cancel()
        timer = nil
    }

    // MARK: Actions

    /// Performs actions in order. Actions that result from an action are queued after the others.
    private func perform(_ more: [EndpointChannelStateMachine.Action]) {
        actions += more
        guard !isPerforming else { return }
        isPerforming = true
        while !actions.isEmpty { perform(actions.removeFirst()) }
        isPerforming = false
        schedule()
        publishStatus()
    }

    private func perform(_ action: EndpointChannelStateMachine.Action) {
        switch action {
        case .requestToken(let attempt): requestToken(attempt)
        case .invalidateToken: invalidateToken()
        case .dial(let attempt, let url):
            if let failure = dialer.dial(attempt, url) { take(.dialFailed(failure), of: attempt) }
        case .makeHello(let attempt, let challenge, let token): makeHello(attempt, challenge, token)
        case .send(let attempt, let frame): if attempt == machine.attempt { dialer.socket?.send(frame) }
        case .ping(let attempt): if attempt == machine.attempt { dialer.socket?.ping() }
        // The machine may have begun the next attempt already. It is dialled later, so this is still the connection meant.
        case .close(_, let code, let reason): dialer.close(code: code, reason: reason)
        case .connected(let welcome): connected(welcome)
        case .disconnected(let reason): disconnected(reason)
        case .answer(let ref, let answer): answers.removeValue(forKey: ref)?(answer)
        case .event(let message): onEvent(.message(message))
        case .roomAgain:
            let waiting = waitingForRoom
            waitingForRoom = []
            for send in waiting { send() }
        }
    }

    /// Calls the machine at its deadline. Received bytes move the deadline, so a timer that fires too early sets the next one.
    private func schedule() {
        let deadline = hasEnded ? nil : machine.deadline
        if let timer, let deadline, timer.due <= deadline { return }
        timer?.scheduled.cancel()
        timer = nil
        guard let deadline else { return }
        let scheduled = loop.after(deadline - loop.now) { [weak self] in
            guard let self else { return }
            timer = nil
            perform(machine.handleDeadlines(now: loop.now, random: &random))
        }
        timer = (deadline, scheduled)
    }

    private func take(_ event: ControlConnection.Event, of attempt: Int) {
        let now = loop.now
        switch event {
        case .dialFailed(let failure): perform(machine.dialFailed(attempt: attempt, failure, now: now, random: &random))
        case .opened(let connection):
            guard attempt == machine.attempt, !hasEnded else { return connection.close(code: 1000, reason: "") }
            dialer.socket = connection
            if readAhead.isFull { connection.setReading(false) }
            perform(machine.opened(attempt: attempt, now: now))
        case .text(let frame):
            perform(machine.received(attempt: attempt, frame, now: now, random: &random))
            if readAhead.received(bytes: frame.readableBytes) { pauseReading() }
        case .bytesReceived: machine.receivedBytes(attempt: attempt, now: now)
        case .written(let bytes):
            perform(machine.written(attempt: attempt, bytes: bytes))
            if !machine.isNetworkBehind { networkTook() }
        case .closed(let code):
            if attempt == machine.attempt { dialer.socket = nil }
            perform(machine.closed(attempt: attempt, code: code, now: now, random: &random))
        }
    }

    /// Stops reading until the work of all messages is done, and what they made this endpoint send has left. Answers to its requests are not
    /// waited for, because they are not read.
    private func pauseReading() {
        dialer.socket?.setReading(false)
        loop.spawn(self) { link in
            var isReading = false
            while !isReading {
                let bytes = link.readAhead.bytes
                await link.finishWork()
                if link.isConnected, link.machine.isNetworkBehind {
                    await withCheckedContinuation { link.waitingForNetwork.append($0) }
                }
                isReading = link.readAhead.finished(bytes: bytes)
            }
            link.dialer.socket?.setReading(true)
        }
    }

    private func networkTook() {
        let waiting = waitingForNetwork
        waitingForNetwork = []
        for continuation in waiting { continuation.resume() }
    }

    private func connected(_ welcome: RelayMessage.Welcome) {
        endpoint.logger.info("connected to the relay")
        problem = nil
        if machine.urls != relayURLs {
            relayURLs = machine.urls
            let urls = relayURLs
            endpoint.journal.writeLater { try $0.setRelayURLs(urls) }
        }
        onEvent(.connected(welcome))
    }

    private func disconnected(_ reason: DisconnectReason) {
        problem = leavingProblem ?? ConnectionError(reason, tokenError)
        endpoint.logger.info("not connected to the relay", metadata: ["reason": "\(problem?.code.description ?? "")"])
        let waiting = waitingForRoom
        waitingForRoom = []
        // Each is answered, because nothing can be sent now.
        for send in waiting { send() }
        networkTook()
        onEvent(.disconnected(reason))
    }

    // MARK: Token and hello

    private func requestToken(_ attempt: Int) {
        let (provider, request) = (endpoint.accessTokens, endpoint.tokenRequest)
        endpoint.status.update { $0.isRequestingToken = true }
        loop.spawn(self) { link in
            defer { link.endpoint.status.update { $0.isRequestingToken = false } }
            do throws(AccessTokenError) {
                let token = try await appCode { () throws(AccessTokenError) in try await provider.accessToken(for: request) }
                link.perform(link.machine.tokenReady(attempt: attempt, Secret(token.value), now: link.loop.now))
            } catch {
                link.tokenFailed(attempt, error)
            }
        }
    }

    private func tokenFailed(_ attempt: Int, _ error: AccessTokenError) {
        endpoint.logger.info("no access token", metadata: ["reason": "\(error.code)"])
        tokenError = error
        perform(machine.tokenFailed(attempt: attempt, isTransient: error.isTransient, now: loop.now, random: &random))
        tokenError = nil
    }

    private func invalidateToken() {
        let (provider, request) = (endpoint.accessTokens, endpoint.tokenRequest)
        loop.spawn(self) { _ in await appCode { await provider.accessTokenInvalidated(request) } }
    }

    private func makeHello(_ attempt: Int, _ challenge: RelayMessage.Challenge, _ token: Secret<String>) {
        clock.set(challenge.time)
        if clock.target.isFarAhead {
            let hours = clock.target.lead / 3_600_000
            endpoint.logger.warning(
                "this device's clock is \(hours) hours ahead of the relay's: commands that others send to it may expire at once; set the clock"
            )
        }
        do {
            let hello = try identity.hello(to: challenge, token, at: dialled.origin, machine.role, instance: instance)
            perform(machine.helloReady(attempt: attempt, hello, now: loop.now, random: &random))
        } catch {
            storage.fail(error)
        }
    }

    // MARK: Sending

    func request(_ make: @escaping (RequestRef) -> EndpointMessage, answer: @escaping (ControlAnswer) -> Void) {
        // There is no relay to tell.
        guard !endpoint.isAnonymous else { return answer(.ok(nil)) }
        do throws(ControlSendError) {
            let (ref, actions) = try machine.request(now: loop.now, make)
            answers[ref] = answer
            perform(actions)
        } catch {
            switch error {
            case .busy: waitingForRoom.append { [weak self] in self?.request(make, answer: answer) }
            case .notConnected: answer(.connectionLost)
            case .tooLarge, .malformed:
                endpoint.logger.error("a request cannot be sent", metadata: ["reason": "\(error)"])
                answer(.connectionLost)
            }
        }
    }

    func say(_ message: EndpointMessage) {
        do throws(ControlSendError) {
            perform(try machine.say(message))
        } catch {
            if error == .busy { waitingForRoom.append { [weak self] in self?.say(message) } }
        }
    }

    func afterOnConnection(_ delay: Int64, _ body: @escaping () -> Void) {
        let attempt = machine.attempt
        loop.after(delay) { [weak self] in if self?.machine.attempt == attempt { body() } }
    }

    func close(code: UInt16, reason: String) { dialer.socket?.close(code: code, reason: reason) }

    // MARK: Published status

    private func publishStatus() {
        let (now, wallTime) = (loop.now, loop.wallTime)
        func waiting(_ until: Int64) -> ConnectionState.Phase {
            .waiting(until: Date(timeIntervalSince1970: Double(wallTime + until - now) / 1_000))
        }
        let phase: ConnectionState.Phase =
            switch machine.status {
            case .stopped: storage.until.map { waiting($0) } ?? .stopped
            case .connecting: .connecting
            case .connected: .connected
            case .waiting(let until): waiting(until)
            }
        let state = ConnectionState(phase: phase, problem: phase == .connected || isPaused ? nil : problem)
        let takesRequests = machine.isOpen
        let node = isConnected && machine.moves > 0 ? dialled.origin : nil
        let published = endpoint.status.value
        guard state != published.state || takesRequests != published.takesRequests || node != published.node else { return }
        endpoint.status.update { link in
            link.node = node
            link.state = state
            link.takesRequests = takesRequests
        }
    }
}
