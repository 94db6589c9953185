// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// Sends files over one bulk stream that a peer opens, as the peer asks for them.
package actor BulkSender {
    private let outbound = OneShot<NIOAsyncChannelOutboundWriter<ByteBuffer>>()
    /// Settled when what was asked for last is sent.
    private var last = OneShot<Void>()

    package init() { last.settle(()) }

    /// Waits for the stream, and holds it until either side closes it. The peer sends nothing.
    package func hold(_ expected: BulkStreams.Expected) async {
        guard let stream = await expected.stream() else { return }
        try? await stream.use { inbound, outbound in
            self.outbound.settle(outbound)
            for try await _ in inbound { break }
        }
    }

    /// Sends files, after those of earlier calls.
    /// - Returns: Why some of them could not be sent, by entry.
    package func send(_ files: [ShareSource.File]) async throws -> [UInt32: any Error] {
        let (before, done) = (last, OneShot<Void>())
        last = done
        defer { done.settle(()) }
        guard await before.wait() != nil, let outbound = await outbound.wait() else { throw CancellationError() }
        let source = ShareSource(files)
        try await source.send(over: outbound)
        return await source.abandoned
    }
}
