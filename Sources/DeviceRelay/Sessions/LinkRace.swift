// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides which path to a peer is tried when, without I/O and clock. A path is identified by its index.
///
/// Each path is tried at its earliest start, and at once if nothing else is being tried. The first session wins. The others are given up,
/// because a peer needs one session.
struct LinkRace: Hashable, Sendable {
    enum Action: Hashable, Sendable {
        case open(path: Int)
        /// End the attempt, or the session that it has established.
        case close(path: Int)
        /// Call `timePassed` then. A new wait replaces an earlier one.
        case wait(until: Int64)
        /// Use the session of this path.
        case win(path: Int)
        /// All paths have failed. The error of this one is reported: the last one is the most general way.
        case fail(path: Int)
        /// There is no path.
        case noPath
    }

    private enum Attempt: Hashable {
        case untried(start: Int64)
        case running
        case failed
        case closed
    }

    private var attempts: [Attempt]
    private(set) var isOver = false

    /// - Parameters:
    ///   - delays: How long after the race's start each path is tried at the earliest, in milliseconds.
    ///   - now: The race's start, by a steady clock in milliseconds.
    init(delays: [Int64], now: Int64) { attempts = delays.map { .untried(start: now &+ max(0, $0)) } }

    mutating func start(now: Int64) -> [Action] {
        guard !attempts.isEmpty else {
            isOver = true
            return [.noPath]
        }
        return advance(now)
    }

    mutating func timePassed(now: Int64) -> [Action] { isOver ? [] : advance(now) }

    /// A path has led to a session.
    mutating func opened(path: Int) -> [Action] {
        guard !isOver, attempts[path] == .running else { return [.close(path: path)] }
        attempts[path] = .closed
        return [.win(path: path)] + end()
    }

    mutating func failed(path: Int, now: Int64) -> [Action] {
        guard !isOver, attempts[path] == .running else { return [] }
        attempts[path] = .failed
        guard attempts.allSatisfy({ $0 == .failed }) else { return advance(now) }
        isOver = true
        return [.fail(path: attempts.count - 1)]
    }

    /// Ends the race, because the caller no longer waits.
    mutating func end() -> [Action] {
        defer { attempts = attempts.map { $0 == .running ? .closed : $0 } }
        isOver = true
        return attempts.indices.filter { attempts[$0] == .running }.map { .close(path: $0) }
    }

    private mutating func advance(_ now: Int64) -> [Action] {
        var actions: [Action] = []
        while let (path, start) = next, start <= now || !attempts.contains(.running) {
            attempts[path] = .running
            actions.append(.open(path: path))
        }
        if let (_, start) = next { actions.append(.wait(until: start)) }
        return actions
    }

    /// The untried path that starts first.
    private var next: (path: Int, start: Int64)? {
        var first: (path: Int, start: Int64)?
        for (path, attempt) in attempts.enumerated() {
            if case .untried(let start) = attempt, first.map({ start < $0.start }) ?? true { first = (path, start) }
        }
        return first
    }
}
