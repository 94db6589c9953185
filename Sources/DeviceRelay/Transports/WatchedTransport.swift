// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// A transport whose end is reported.
struct WatchedTransport: PeerTransport {
    let transport: any PeerTransport
    /// Called once, on any thread: when no stream was established, or when it has closed.
    let ended: @Sendable () -> Void

    func connect(
        timeout: Duration,
        install: @escaping @Sendable (any Channel) throws -> Void
    ) async throws(PeerTransportError) -> any Channel {
        do {
            let channel = try await transport.connect(timeout: timeout, install: install)
            channel.closeFuture.whenComplete { _ in ended() }
            return channel
        } catch {
            ended()
            throw error
        }
    }
}
