// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension TunnelRace {
    /// Which of the ways into a tunnel is tried when, without I/O and clock. A way is named by its place among the candidates.
    ///
    /// Ways are dialled one after the other, each when the one before has failed or kept the race waiting. As soon as one is connected
    /// the others are given up: in a tunnel a side's newer connection takes the place of its older one, so they must not both come in.
    struct StateMachine: Hashable, Sendable {
        /// One dialling of a way.
        typealias AttemptID = Int

        /// How long the race waits before it tries the next way too.
        enum Wait: Hashable, Sendable {
            /// While nothing is connected.
            case connecting
            /// The relay answers when the other side is there; silence is mostly the other side's.
            case answering
        }

        enum Action: Hashable, Sendable {
            case dial(way: Int, as: AttemptID)
            case close(AttemptID)
            /// Call `patienceEnded` with this turn, in place of any earlier one.
            case wait(Wait, turn: Int)
            case fail(PeerTransportError)
        }

        private struct Attempt: Hashable {
            let id: AttemptID
            let way: Int
            var isConnected = false
        }

        private var untried: [Int]
        /// Neither failed nor given up.
        private var running: [Attempt] = []
        private var lastAttempt: AttemptID = 0
        private var turn = 0
        /// Of the ways that failed, the one that got furthest says why; of equals the last.
        private var failure = PeerTransportError.noCandidate
        private(set) var isOver = false

        init(ways: Int) { untried = Array(0..<ways) }

        mutating func start() -> [Action] { isOver ? [] : tryNext() }

        func isRunning(_ attempt: AttemptID) -> Bool { running.contains { $0.id == attempt } }

        /// An attempt is connected, and shows the token.
        mutating func connected(_ attempt: AttemptID) -> [Action] {
            guard let index = running.firstIndex(where: { $0.id == attempt }) else { return [] }
            var winner = running.remove(at: index)
            winner.isConnected = true
            let others = running
            running = [winner]
            // Who was only slow has another turn if this one fails; not who was silent.
            untried += others.filter { !$0.isConnected }.map(\.way)
            return others.map { .close($0.id) } + wait(.answering)
        }

        /// An attempt leads nowhere. Without effect for one that was given up.
        mutating func failed(_ attempt: AttemptID, _ error: PeerTransportError) -> [Action] {
            guard isRunning(attempt) else { return [] }
            running.removeAll { $0.id == attempt }
            if error.progress >= failure.progress { failure = error }
            return [.close(attempt)] + tryNext()
        }

        mutating func patienceEnded(turn: Int) -> [Action] {
            guard !isOver, turn == self.turn else { return [] }
            return tryNext()
        }

        /// The relay has answered: this way it is.
        /// - Returns: `nil` if it comes too late.
        mutating func won(_ attempt: AttemptID) -> [Action]? {
            guard isRunning(attempt) else { return nil }
            running.removeAll { $0.id == attempt }
            return end()
        }

        /// The race is over.
        mutating func end() -> [Action] {
            defer { (isOver, running, untried) = (true, [], []) }
            return running.map { .close($0.id) }
        }

        private mutating func tryNext() -> [Action] {
            guard !untried.isEmpty else {
                guard running.isEmpty else { return [] }
                isOver = true
                return [.fail(failure)]
            }
            lastAttempt += 1
            let attempt = Attempt(id: lastAttempt, way: untried.removeFirst())
            running.append(attempt)
            // The dialling may come back with its failure at once, and that with another wait.
            return wait(.connecting) + [.dial(way: attempt.way, as: attempt.id)]
        }

        private mutating func wait(_ patience: Wait) -> [Action] {
            turn += 1
            return untried.isEmpty ? [] : [.wait(patience, turn: turn)]
        }
    }
}

extension PeerTransportError {
    fileprivate enum Progress: Comparable {
        case unreached, reached, answered
    }

    /// How far the way that failed had got.
    fileprivate var progress: Progress {
        switch self {
        case .refused: .answered
        case .closed, .unreachable(.untrusted), .unreachable(.notARelay), .unreachable(.protocolError): .reached
        case .unreachable(.unreachable), .unreachable(.timedOut), .noCandidate, .foreignHost, .timedOut, .cancelled: .unreached
        }
    }
}
