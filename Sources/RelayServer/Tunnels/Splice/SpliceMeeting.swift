// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import NIOCore
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The system's own, where a method has its name.
private func systemClose(_ socket: CInt) { close(socket) }

/// A side's socket, when it has left its NIO channel.
struct SpliceEnd: Sendable {
    /// Ours to close.
    let socket: CInt
    /// What was read and not written to the other side.
    let early: [UInt8]
    /// Nothing comes behind that.
    let hasEnded: Bool
    /// Called when it is closed.
    let left: @Sendable () -> Void

    func end() {
        Self.close(socket)
        left()
    }

    static func close(_ socket: CInt) { systemClose(socket) }
}

extension Channel {
    /// The socket under another number, which outlives the channel. Called on the event loop.
    func duplicatedSocket() -> CInt? {
        let copy = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: CInt.self) { fcntl($0, F_DUPFD_CLOEXEC, 0) }
        guard let copy, copy >= 0 else { return nil }
        return copy
    }
}

/// Both sides' sockets.
struct SpliceEnds: Sendable {
    let one: SpliceEnd
    let other: SpliceEnd
}

/// Where the two connections of a tunnel meet, on their way from their event loops to a splice loop. They start when the first bytes have
/// come: until then either may be replaced. Both stay where they are if one cannot have another file.
final class SpliceMeeting: Sendable {
    private struct State {
        var greeted: Set<Int> = []
        var isWanted = false
        var sockets: [Int: CInt] = [:]
        var ends: [Int: SpliceEnd] = [:]
        var pair: (loop: SpliceLoop, id: SpliceLoop.PairID)?
        var areStaying = false
        var isOver = false

        mutating func takeEnds() -> [SpliceEnd] {
            defer { ends = [:] }
            return Array(ends.values)
        }

        mutating func takeSockets() -> [Int: CInt] {
            defer { sockets = [:] }
            return sockets
        }
    }

    private let connections: [TunnelConnection]
    private let metrics: TunnelMetrics
    private let state = Mutex(State())

    init(_ one: TunnelConnection, _ other: TunnelConnection, metrics: TunnelMetrics) {
        connections = [one, other]
        self.metrics = metrics
    }

    /// A side knows that it is paired, and could leave its channel.
    func greeted(_ side: Int) {
        changed { $0.greeted.insert(side) }
    }

    /// Bytes are about to pass.
    /// - Returns: whether they go to a splice loop.
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
        if isNow { for (side, connection) in connections.enumerated() { connection.duplicateSocket(for: self, side) } }
    }

    /// A side's socket has another number, or `nil` if it could not have one.
    func duplicated(_ socket: CInt?, _ side: Int) {
        let (superfluous, leaving, areStaying) = state.withLock { state -> ([CInt], [Int: CInt], Bool) in
            guard !state.isOver, !state.areStaying else { return (socket.map { [$0] } ?? [], [:], false) }
            guard let socket, SpliceLoop.next != nil else {
                state.areStaying = true
                return ((socket.map { [$0] } ?? []) + state.takeSockets().values, [:], true)
            }
            state.sockets[side] = socket
            return ([], state.sockets.count == 2 ? state.takeSockets() : [:], false)
        }
        for socket in superfluous { SpliceEnd.close(socket) }
        for (side, socket) in leaving { connections[side].leave(by: socket, for: self, side) }
        if areStaying { for connection in connections { connection.stay() } }
    }

    /// A side has left its channel.
    func arrived(_ end: SpliceEnd, _ side: Int) {
        let superfluous: [SpliceEnd] = state.withLock { state in
            state.ends[side] = end
            guard !state.isOver else { return state.takeEnds() }
            guard let one = state.ends[0], let other = state.ends[1] else { return [] }
            guard let loop = SpliceLoop.next else { return state.takeEnds() }
            state.pair = (loop, loop.add(SpliceEnds(one: one, other: other), metrics: metrics))
            state.ends = [:]
            return []
        }
        for end in superfluous { end.end() }
    }

    /// Closes both sides, wherever they are.
    func abort() {
        let (pair, ends, sockets) = state.withLock { state in
            state.isOver = true
            return (state.pair, state.takeEnds(), state.takeSockets())
        }
        for end in ends { end.end() }
        for socket in sockets.values { SpliceEnd.close(socket) }
        if let (loop, id) = pair { loop.abort(id) }
    }

    func bytesInFlight(from side: Int) async -> Int {
        guard let (loop, id) = state.withLock({ $0.pair }) else { return state.withLock { $0.ends[side]?.early.count ?? 0 } }
        return await loop.bytesInFlight(id, from: side)
    }
}
#endif
