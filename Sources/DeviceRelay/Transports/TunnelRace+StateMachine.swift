// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension TunnelRace {
    /// Decides which candidate of a tunnel is dialled when, without I/O and clock. A candidate (a way) is identified by its index.
    ///
    /// The candidates are dialled one after the other: the next one when the previous one has failed or takes too long. As soon as one is
    /// connected, the others are closed, because in a tunnel a side's newer connection replaces its older one.
    struct StateMachine: Hashable, Sendable {
        /// Identifies one attempt to dial a candidate.
        typealias AttemptID = Int

        /// The kind of wait before the next candidate is dialled too.
        enum Wait: Hashable, Sendable {
            /// No attempt is connected yet.
            case connecting
            /// An attempt is connected. The relay answers only after the other side has arrived, so this wait is longer.
            case answering
        }

        enum Action: Hashable, Sendable {
            case dial(way: Int, as: AttemptID)
            case close(AttemptID)
            /// Call `waitEnded` with this number after the wait. A new wait replaces an earlier one.
            case wait(Wait, step: Int)
            case fail(PeerTransportError)
        }

        private struct Attempt: Hashable {
            let id: AttemptID
            let way: Int
            var isConnected = false
        }

        private var untried: [Int]
        /// The attempts that have not ended.
        private var running: [Attempt] = []
        private var lastAttempt: AttemptID = 0
        private var step = 0
        /// The error to report: that of the candidate that got furthest; of equals, that of the last.
        private var failure = PeerTransportError.noCandidate
        private(set) var isOver = false

        init(ways: Int) { untried = Array(0..<ways) }

        mutating func start() -> [Action] { isOver ? [] : tryNext() }

        func isRunning(_ attempt: AttemptID) -> Bool { running.contains { $0.id == attempt } }

        /// Records that an attempt is connected and sends its token.
        mutating func connected(_ attempt: AttemptID) -> [Action] {
            guard let index = running.firstIndex(where: { $0.id == attempt }) else { return [] }
            var winner = running.remove(at: index)
            winner.isConnected = true
            let others = running
            running = [winner]
            // Candidates that were still connecting are tried again if this one fails. Connected candidates without an answer are not.
            untried += others.filter { !$0.isConnected }.map(\.way)
            return others.map { .close($0.id) } + wait(.answering)
        }

        /// Records that an attempt failed. It has no effect for an attempt that was closed.
        mutating func failed(_ attempt: AttemptID, _ error: PeerTransportError) -> [Action] {
            guard isRunning(attempt) else { return [] }
            running.removeAll { $0.id == attempt }
            if error.progress >= failure.progress { failure = error }
            return [.close(attempt)] + tryNext()
        }

        mutating func waitEnded(step: Int) -> [Action] {
            guard !isOver, step == self.step else { return [] }
            return tryNext()
        }

        /// Records that the relay has paired the two sides on this attempt.
        /// - Returns: `nil` if the attempt was closed before.
        mutating func won(_ attempt: AttemptID) -> [Action]? {
            guard isRunning(attempt) else { return nil }
            running.removeAll { $0.id == attempt }
            return end()
        }

        /// Ends the race.
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
            // The wait comes first: the dial may fail at once, and that starts another wait.
            return wait(.connecting) + [.dial(way: attempt.way, as: attempt.id)]
        }

        private mutating func wait(_ kind: Wait) -> [Action] {
            step += 1
            return untried.isEmpty ? [] : [.wait(kind, step: step)]
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
        case .closed, .unreachable(.untrusted), .unreachable(.status), .unreachable(.protocolError): .reached
        case .unreachable(.unreachable), .unreachable(.timedOut), .noCandidate, .foreignHost, .timedOut, .cancelled, .notReached,
            .closedEarly, .notProved:
            .unreached
        }
    }
}
