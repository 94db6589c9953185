// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Several attempts to enter a tunnel, of which one succeeds. Everything happens on the dialer's loop, in the order in which the machine
/// asks for it: a timer set late would otherwise take the place of the one after it.
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
    private let patience: TunnelTransport.Timeouts
    private let dialer: TunnelDialer
    private let state: NIOLoopBoundBox<State>

    init(_ candidates: [TunnelCandidate], patience: TunnelTransport.Timeouts, dial dialer: TunnelDialer) {
        self.candidates = candidates
        self.patience = patience
        self.dialer = dialer
        state = .makeBoxSendingValue(State(machine: StateMachine(ways: candidates.count)), eventLoop: dialer.loop)
    }

    func start(timeout: TimeAmount) {
        dialer.loop.execute { [self] in
            state.value.end = dialer.loop.scheduleTask(in: timeout) { self.end(.timedOut) }
            change { $0.start() }
        }
    }

    /// Nobody waits for the outcome any more.
    func cancel() {
        dialer.loop.execute { [self] in
            if case .success(let channel) = outcome.value { channel.close(promise: nil) }
            end(.cancelled)
        }
    }

    private func end(_ error: PeerTransportError) {
        change { $0.end() }
        outcome.settle(.failure(error))
    }

    // MARK: Attempts

    /// False if the attempt was given up.
    fileprivate func add(_ channel: any Channel, _ attempt: StateMachine.AttemptID) -> Bool {
        guard state.value.machine.isRunning(attempt) else { return false }
        state.value.channels[attempt] = channel
        return true
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
        let actions = body(&state.value.machine)
        for action in actions {
            switch action {
            case .wait(let patience, let turn): wait(patience, turn)
            case .dial(let way, let attempt): dialer.dial(candidates[way], TunnelAttempt(race: self, id: attempt))
            case .close(let attempt):
                guard let channel = state.value.channels.removeValue(forKey: attempt) else { break }
                // Not at once: this may run within a handler of the channel, which must not be entered again.
                channel.eventLoop.execute { channel.close(promise: nil) }
            case .fail(let error): outcome.settle(.failure(error))
            }
        }
        guard state.value.machine.isOver else { return }
        state.value.timer?.cancel()
        state.value.end?.cancel()
        (state.value.timer, state.value.end, state.value.channels) = (nil, nil, [:])
    }

    private func wait(_ kind: StateMachine.Wait, _ turn: Int) {
        let time = kind == .connecting ? patience.connecting : patience.answering
        state.value.timer?.cancel()
        state.value.timer = dialer.loop.scheduleTask(in: time) { self.change { $0.patienceEnded(turn: turn) } }
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
