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

/// The system's own, where a method has its name.
private func systemClose(_ socket: CInt) { close(socket) }

/// A side's socket, when it has left its NIO channel.
struct DetachedSocket: Sendable {
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
