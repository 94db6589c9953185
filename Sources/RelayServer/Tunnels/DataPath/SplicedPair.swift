// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import CLinux
import RelayProtocol

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The sockets of a tunnel's two sides, in a `SpliceLoop`: bytes read from one are written to the other. Used only by the loop's thread.
final class SplicedPair {
    /// The next step after an event.
    enum Progress {
        /// The awaited events stay the same.
        case continues
        /// The loop must wait for other events.
        case waitsAnew
        case isOver
    }

    private struct Side {
        let end: DetachedSocket
        /// The bytes from this side to the other.
        var direction: SpliceDirection
        /// The events that the loop waits for.
        var interest: UInt32 = 0
        // Bytes not yet added to the metrics.
        var received = 0
        var sent = 0
    }

    /// All loops share the counters, so they are not updated for every read.
    private static let reportedBytes = 1 << 20

    private var sides: [Side]
    private let metrics: TunnelMetrics

    init(_ ends: DetachedSockets, metrics: TunnelMetrics) {
        sides = [ends.one, ends.other].map { Side(end: $0, direction: SpliceDirection(rest: $0.early, hasEnded: $0.hasEnded)) }
        self.metrics = metrics
    }

    func socket(_ side: Int) -> CInt { sides[side].end.socket }
    func bytesInFlight(from side: Int) -> Int { sides[side].direction.rest.count }

    /// The events to wait for at a side, if they have changed.
    func newInterest(_ side: Int) -> UInt32? {
        let reads = sides[side].direction.isReading ? EPOLLIN.rawValue : 0
        let writes = sides[1 - side].direction.isWriting ? EPOLLOUT.rawValue : 0
        // Even without an interest, `epoll` reports that both directions of a socket have ended: once, and not for as long as it lasts.
        let interest = reads | writes == 0 ? EPOLLET.rawValue : reads | writes
        guard sides[side].interest != interest else { return nil }
        sides[side].interest = interest
        return interest
    }

    /// Passes on the bytes from before the pair entered the loop.
    func begin() -> Progress { advance(0) == .isOver || advance(1) == .isOver ? .isOver : .waitsAnew }

    /// Handles events of a side's socket.
    func happened(_ events: UInt32, at side: Int, block: UnsafeMutableRawBufferPointer) -> Progress {
        var progress = Progress.continues
        if events & EPOLLOUT.rawValue != 0, sides[1 - side].direction.isWriting { progress = advance(1 - side) }
        guard progress != .isOver, events & ~EPOLLOUT.rawValue != 0 else { return progress }
        if sides[side].direction.isReading {
            let read = pass(from: side, block: block)
            return read == .continues ? progress : read
        }
        // A broken socket. One that has only ended in both directions (`EPOLLHUP`) may have bytes that wait for the other side.
        return events & EPOLLERR.rawValue != 0 ? .isOver : progress
    }

    /// One read, and one write of the bytes.
    private func pass(from side: Int, block: UnsafeMutableRawBufferPointer) -> Progress {
        let count = recv(socket(side), block.baseAddress, block.count, CInt(MSG_DONTWAIT))
        guard count >= 0 else { return Self.isTemporary(errno) ? .continues : .isOver }
        guard count > 0 else {
            sides[side].direction.end()
            return advance(side)
        }
        sides[side].received += count
        guard let sent = offer(UnsafeRawBufferPointer(rebasing: block[..<count]), to: 1 - side) else { return .isOver }
        if sides[side].received >= Self.reportedBytes { report() }
        guard sent < count else { return .continues }
        sides[side].direction.keep(UnsafeRawBufferPointer(rebasing: block[sent..<count]))
        return .waitsAnew
    }

    /// Writes the rest of a direction, and then its end.
    private func advance(_ side: Int) -> Progress {
        if sides[side].direction.isWriting {
            guard let sent = sides[side].direction.rest.withUnsafeBytes({ offer($0, to: 1 - side) }) else { return .isOver }
            sides[side].direction.wrote(sent)
        }
        if sides[side].direction.passOnEnd() {
            shutdown(socket(1 - side), CInt(SHUT_WR))
            if sides[1 - side].direction.isDone { return .isOver }
        }
        return .waitsAnew
    }

    /// - Returns: how many bytes the socket took; `nil` if it is broken.
    private func offer(_ bytes: UnsafeRawBufferPointer, to side: Int) -> Int? {
        let count = send(socket(side), bytes.baseAddress, bytes.count, CInt(MSG_DONTWAIT | MSG_NOSIGNAL))
        guard count >= 0 else { return Self.isTemporary(errno) ? 0 : nil }
        sides[side].sent += count
        return count
    }

    private static func isTemporary(_ error: CInt) -> Bool { error == EAGAIN || error == EWOULDBLOCK || error == EINTR }

    private func report() {
        for side in sides.indices {
            metrics.passed(received: sides[side].received, sent: sides[side].sent, by: .tcp)
            (sides[side].received, sides[side].sent) = (0, 0)
        }
    }

    /// Closes both sockets. Must be called once.
    func end() {
        report()
        for side in sides { side.end.end() }
    }
}
#endif
