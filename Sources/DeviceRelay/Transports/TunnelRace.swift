// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// Several attempts to enter a tunnel, of which one succeeds.
final class TunnelRace: Sendable {
    private struct State {
        var machine: StateMachine
        var channels: [StateMachine.AttemptID: any Channel] = [:]
        /// Runs out when the next way is tried.
        var timer: Scheduled<Void>?
        /// Runs out with the race.
        var end: Scheduled<Void>?
    }

    let outcome = OneShot<Result<any Channel, PeerTransportError>>()
    private let candidates: [TunnelCandidate]
    private let patience: TunnelTransport.Patience
    private let dialer: TunnelDialer
    private let state: Mutex<State>

    init(_ candidates: [TunnelCandidate], patience: TunnelTransport.Patience, dial dialer: TunnelDialer) {
        self.candidates = candidates
        self.patience = patience
        self.dialer = dialer
        state = Mutex(State(machine: StateMachine(ways: candidates.count)))
    }

    func start(timeout: TimeAmount) {
        let end = dialer.loop.scheduleTask(in: timeout) { self.end(.failure(.timedOut)) }
        state.withLock { $0.end = end }
        change { $0.start() }
    }

    /// Ends the race in whatever way, unless it has ended.
    func end(_ result: Result<any Channel, PeerTransportError>) {
        var isFirst = false
        change { machine in
            isFirst = !machine.isOver
            return machine.end()
        }
        if isFirst { outcome.settle(result) }
    }

    // MARK: Attempts

    /// False if the attempt was given up.
    fileprivate func add(_ channel: any Channel, _ attempt: StateMachine.AttemptID) -> Bool {
        state.withLock { state in
            guard state.machine.isRunning(attempt) else { return false }
            state.channels[attempt] = channel
            return true
        }
    }

    /// - Returns: whether it is the first.
    fileprivate func won(_ attempt: StateMachine.AttemptID) -> Bool {
        var isFirst = false
        change { machine in
            let actions = machine.won(attempt)
            isFirst = actions != nil
            return actions ?? []
        }
        return isFirst
    }

    // MARK: The machine

    fileprivate func change(_ body: (inout StateMachine) -> [StateMachine.Action]) {
        let (actions, channels, timers) = state.withLock { state in
            let actions = body(&state.machine)
            var channels: [any Channel] = []
            for case .close(let attempt) in actions {
                if let channel = state.channels.removeValue(forKey: attempt) { channels.append(channel) }
            }
            guard state.machine.isOver else { return (actions, channels, [Scheduled<Void>?]()) }
            defer { (state.timer, state.end, state.channels) = (nil, nil, [:]) }
            return (actions, channels, [state.timer, state.end])
        }
        for timer in timers { timer?.cancel() }
        // Not at once: this may run within a handler of the channel, which must not be entered again.
        for channel in channels { channel.eventLoop.execute { channel.close(promise: nil) } }
        for action in actions {
            switch action {
            case .dial(let way, let attempt): dialer.dial(candidates[way], TunnelAttempt(race: self, id: attempt))
            case .close: break
            case .wait(let patience, let turn): wait(patience, turn)
            case .fail(let error): outcome.settle(.failure(error))
            }
        }
    }

    private func wait(_ kind: StateMachine.Patience, _ turn: Int) {
        let time = kind == .connecting ? patience.connecting : patience.answering
        let timer = dialer.loop.scheduleTask(in: time) { self.change { $0.patienceEnded(turn: turn) } }
        let before = state.withLock { state in
            defer { if !state.machine.isOver { state.timer = timer } }
            return state.machine.isOver ? timer : state.timer
        }
        before?.cancel()
    }
}

/// One of the attempts.
struct TunnelAttempt: Sendable {
    private let race: TunnelRace
    private let id: TunnelRace.StateMachine.AttemptID

    fileprivate init(race: TunnelRace, id: TunnelRace.StateMachine.AttemptID) {
        self.race = race
        self.id = id
    }

    /// False if it comes too late.
    func add(_ channel: any Channel) -> Bool { race.add(channel, id) }

    func connected() { race.change { $0.connected(id) } }

    func fail(_ error: PeerTransportError) { race.change { $0.failed(id, error) } }

    /// The relay has answered: if this is the first, the stream begins.
    func win(_ channel: any Channel, install: (any Channel) throws -> Void) {
        guard race.won(id) else { return channel.close(promise: nil) }
        do {
            try install(channel)
            race.outcome.settle(.success(channel))
        } catch {
            channel.close(promise: nil)
            race.outcome.settle(.failure(.unreachable(.protocolError("TLS cannot be set up"))))
        }
    }
}
