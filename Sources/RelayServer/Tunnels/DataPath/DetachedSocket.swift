// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The system function, where a method has the same name.
private func systemClose(_ socket: CInt) { close(socket) }

/// The socket of a side that has left its NIO channel.
struct DetachedSocket: Sendable {
    /// The descriptor, which this value owns.
    let socket: CInt
    /// Bytes that were read and not written to the other side.
    let early: [UInt8]
    /// Whether the input ends after those bytes.
    let hasEnded: Bool
    /// Called when the socket is closed.
    let left: @Sendable () -> Void

    func end() {
        Self.close(socket)
        left()
    }

    static func close(_ socket: CInt) { systemClose(socket) }
}

extension Channel {
    /// A duplicate of the socket, which outlives the channel. Must be called on the event loop.
    func duplicatedSocket() -> CInt? {
        let copy = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: CInt.self) { fcntl($0, F_DUPFD_CLOEXEC, 0) }
        guard let copy, copy >= 0 else { return nil }
        return copy
    }
}
