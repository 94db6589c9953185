// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Runs several attempts to enter a tunnel, of which at most one succeeds. All work happens on the dialer's event loop, in the order of the
/// machine's actions. Otherwise a late timer could replace a newer one.
final class TunnelRace: Sendable {
    private struct State {
        var machine: StateMachine
        var channels: [StateMachine.AttemptID: any Channel] = [:]
        /// Fires when the next candidate is to be dialled.
        var timer: Scheduled<Void>?
        /// Fires at the race's timeout.
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

    /// Cancels the race, because the caller no longer waits.
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

    /// Returns false if the attempt was closed.
    fileprivate func add(_ channel: any Channel, _ attempt: StateMachine.AttemptID) -> Bool {
        guard state.value.machine.isRunning(attempt) else { return false }
        state.value.channels[attempt] = channel
        return true
    }

    /// - Returns: Whether this attempt is the first.
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
            case .wait(let kind, let step): wait(kind, step)
            case .dial(let way, let attempt): dialer.dial(candidates[way], TunnelAttempt(race: self, id: attempt))
            case .close(let attempt):
                guard let channel = state.value.channels.removeValue(forKey: attempt) else { break }
                // Deferred, because this may run within a handler of the channel, which must not be re-entered.
                channel.eventLoop.execute { channel.close(promise: nil) }
            case .fail(let error): outcome.settle(.failure(error))
            }
        }
        guard state.value.machine.isOver else { return }
        state.value.timer?.cancel()
        state.value.end?.cancel()
        (state.value.timer, state.value.end, state.value.channels) = (nil, nil, [:])
    }

    private func wait(_ kind: StateMachine.Wait, _ step: Int) {
        let time = kind == .connecting ? patience.connecting : patience.answering
        state.value.timer?.cancel()
        state.value.timer = dialer.loop.scheduleTask(in: time) { self.change { $0.waitEnded(step: step) } }
    }
}

/// One attempt of a race.
struct TunnelAttempt: Sendable {
    private let race: TunnelRace
    private let id: TunnelRace.StateMachine.AttemptID

    fileprivate init(race: TunnelRace, id: TunnelRace.StateMachine.AttemptID) {
        self.race = race
        self.id = id
    }

    /// Returns false if the attempt was closed.
    func add(_ channel: any Channel) -> Bool { race.add(channel, id) }

    func connected() { race.change { $0.connected(id) } }

    func fail(_ error: PeerTransportError) { race.change { $0.failed(id, error) } }

    /// Ends the race with this channel if it is the first that the relay has paired. Otherwise it closes the channel.
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
