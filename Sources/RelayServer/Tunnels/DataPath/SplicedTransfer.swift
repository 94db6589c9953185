// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Synchronization

/// The sockets of both sides.
struct DetachedSockets: Sendable {
    let one: DetachedSocket
    let other: DetachedSocket
}

/// Moves two connections from their event loops to a splice loop. They stay in their event loops if a descriptor is missing.
final class SplicedTransfer: TunnelTransfer {
    private struct State {
        var greeted: Set<Int> = []
        var isWanted = false
        var sockets: [Int: CInt] = [:]
        var ends: [Int: DetachedSocket] = [:]
        var pair: SpliceLoop.PairID?
        var areStaying = false
        var isOver = false

        mutating func takeEnds() -> [DetachedSocket] {
            defer { ends = [:] }
            return Array(ends.values)
        }

        mutating func takeSockets() -> [Int: CInt] {
            defer { sockets = [:] }
            return sockets
        }
    }

    private let connections: [TunnelConnection]
    private let loop: SpliceLoop
    private let metrics: TunnelMetrics
    private let state = Mutex(State())

    init(_ one: TunnelConnection, _ other: TunnelConnection, in loop: SpliceLoop, metrics: TunnelMetrics) {
        connections = [one, other]
        self.loop = loop
        self.metrics = metrics
    }

    /// Records that a side's client knows about the pairing, so the side can leave its channel.
    func greeted(_ side: Int) {
        changed { $0.greeted.insert(side) }
    }

    /// Announces the first bytes.
    /// - Returns: whether the splice loop carries them.
    func begin() -> Bool {
        changed { $0.isWanted = true }
        return state.withLock { !$0.areStaying }
    }

    private func changed(_ change: (inout State) -> Void) {
        let isNow = state.withLock { state in
            let before = state.isWanted && state.greeted.count == 2
            change(&state)
            return !before && state.isWanted && state.greeted.count == 2
        }
        guard isNow else { return }
        for (side, connection) in connections.enumerated() { connection.duplicateSocket { self.duplicated($0, side) } }
    }

    /// Records the duplicate of a side's socket; `nil` if the duplication failed.
    func duplicated(_ socket: CInt?, _ side: Int) {
        let (superfluous, leaving, areStaying) = state.withLock { state -> ([CInt], [Int: CInt], Bool) in
            guard !state.isOver, !state.areStaying else { return (socket.map { [$0] } ?? [], [:], false) }
            guard let socket else {
                state.areStaying = true
                return (Array(state.takeSockets().values), [:], true)
            }
            state.sockets[side] = socket
            return ([], state.sockets.count == 2 ? state.takeSockets() : [:], false)
        }
        for socket in superfluous { DetachedSocket.close(socket) }
        for (side, socket) in leaving {
            connections[side].leave(by: socket) { end in
                if let end { self.arrived(end, side) } else { self.abort() }
            }
        }
        if areStaying { for connection in connections { connection.stay() } }
    }

    /// Records that a side has left its channel.
    func arrived(_ end: DetachedSocket, _ side: Int) {
        let (both, superfluous) = state.withLock { state -> (DetachedSockets?, [DetachedSocket]) in
            state.ends[side] = end
            guard !state.isOver else { return (nil, state.takeEnds()) }
            guard let one = state.ends[0], let other = state.ends[1] else { return (nil, []) }
            state.ends = [:]
            return (DetachedSockets(one: one, other: other), [])
        }
        for end in superfluous { end.end() }
        guard let both else { return }
        // Without the lock: a stopped loop ends the pair in this call, and the core may then call `abort`.
        let pair = loop.add(both, metrics: metrics)
        let isOver = state.withLock { state in
            state.pair = pair
            return state.isOver
        }
        if isOver { loop.abort(pair) }
    }

    /// Closes both sides, in any state.
    func abort() {
        let (pair, ends, sockets) = state.withLock { state in
            state.isOver = true
            return (state.pair, state.takeEnds(), state.takeSockets())
        }
        for end in ends { end.end() }
        for socket in sockets.values { DetachedSocket.close(socket) }
        if let pair { loop.abort(pair) }
    }

    func bytesInFlight(from side: Int) async -> Int {
        guard let pair = state.withLock({ $0.pair }) else { return state.withLock { $0.ends[side]?.early.count ?? 0 } }
        return await loop.bytesInFlight(pair, from: side)
    }
}
#endif
