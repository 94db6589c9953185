// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Several attempts to enter a tunnel, of which one succeeds.
final class TunnelRace: Sendable {
    private struct State {
        var remaining: ArraySlice<TunnelCandidate>
        var channels: [any Channel] = []
        var running = 0
        var timers: [Scheduled<Void>] = []
        /// What the relay said counts more than that it could not be reached in another way.
        var failure = PeerTransportError.noCandidate
        var isOver = false
    }

    let outcome = OneShot<Result<any Channel, PeerTransportError>>()
    private let patience: TimeAmount
    private let dialer: TunnelDialer
    private let state: Mutex<State>

    init(_ candidates: [TunnelCandidate], patience: TimeAmount, dial dialer: TunnelDialer) {
        self.patience = patience
        self.dialer = dialer
        state = Mutex(State(remaining: candidates[...]))
    }

    func start(timeout: TimeAmount) {
        keep(dialer.loop.scheduleTask(in: timeout) { self.end(.failure(.timedOut)) })
        next()
    }

    /// Tries the next candidate, if there is one.
    private func next() {
        enum Step {
            case dial(TunnelCandidate, isLast: Bool)
            case fail(PeerTransportError)
            case wait
        }
        let step: Step = state.withLock { state in
            if state.isOver { return .wait }
            if let candidate = state.remaining.popFirst() {
                state.running += 1
                return .dial(candidate, isLast: state.remaining.isEmpty)
            }
            return state.running == 0 ? .fail(state.failure) : .wait
        }
        switch step {
        case .wait: break
        case .fail(let error): end(.failure(error))
        case .dial(let candidate, let isLast):
            if !isLast { keep(dialer.loop.scheduleTask(in: patience) { self.next() }) }
            dialer.dial(candidate, TunnelAttempt(race: self))
        }
    }

    private func keep(_ timer: Scheduled<Void>) {
        let isOver = state.withLock { state in
            if !state.isOver { state.timers.append(timer) }
            return state.isOver
        }
        if isOver { timer.cancel() }
    }

    // MARK: Attempts

    /// False if the race is over.
    fileprivate func add(_ channel: any Channel) -> Bool {
        state.withLock { state in
            if !state.isOver { state.channels.append(channel) }
            return !state.isOver
        }
    }

    fileprivate func failed(_ error: PeerTransportError) {
        state.withLock { state in
            state.running -= 1
            if case .refused = state.failure { return }
            state.failure = error
        }
        next()
    }

    /// The relay has answered on this channel.
    /// - Returns: whether it is the first.
    fileprivate func win(_ channel: any Channel) -> Bool { finish(except: channel) }

    /// Ends the race in whatever way, unless it has ended.
    func end(_ result: Result<any Channel, PeerTransportError>) {
        if finish(except: nil) { outcome.settle(result) }
    }

    private func finish(except winner: (any Channel)?) -> Bool {
        let ended = state.withLock { state -> State? in
            guard !state.isOver else { return nil }
            defer { state = State(remaining: [], isOver: true) }
            return state
        }
        guard let ended else { return false }
        for timer in ended.timers { timer.cancel() }
        // Not at once: this may run within a handler of the channel, which must not be entered again.
        for channel in ended.channels where channel !== winner { channel.eventLoop.execute { channel.close(promise: nil) } }
        return true
    }
}

/// One of the attempts. It fails once, or wins.
final class TunnelAttempt: Sendable {
    private let race: TunnelRace
    private let isOver = Mutex(false)

    init(race: TunnelRace) { self.race = race }

    /// False if it comes too late.
    func add(_ channel: any Channel) -> Bool { race.add(channel) }

    func fail(_ error: PeerTransportError) {
        if finish() { race.failed(error) }
    }

    /// The relay has answered: if this is the first, the stream begins.
    func win(_ channel: any Channel, install: (any Channel) throws -> Void) {
        guard finish() else { return }
        guard race.win(channel) else { return channel.close(promise: nil) }
        do {
            try install(channel)
            race.outcome.settle(.success(channel))
        } catch {
            channel.close(promise: nil)
            race.outcome.settle(.failure(.unreachable(.protocolError("TLS cannot be set up"))))
        }
    }

    private func finish() -> Bool {
        isOver.withLock { isOver in
            defer { isOver = true }
            return !isOver
        }
    }
}
