// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Synchronization

/// Moves plain connections from their event loops to dedicated threads, which copy between the two sockets.
final class SpliceDataPath: TunnelDataPath {
    /// One for each processor. Created at the start, because file descriptors may run out later.
    private let loops: [SpliceLoop]
    private let last = Atomic(0)

    init(threads: Int = EventLoops.count) { loops = (0..<threads).compactMap { _ in SpliceLoop() } }

    func transfer(between one: TunnelConnection, and other: TunnelConnection, metrics: TunnelMetrics) -> (any TunnelTransfer)? {
        guard one.isPlain, other.isPlain, !loops.isEmpty else { return nil }
        let loop = loops[last.wrappingAdd(1, ordering: .relaxed).oldValue % loops.count]
        return SplicedTransfer(one, other, in: loop, metrics: metrics)
    }

    func stop() async { for loop in loops { await loop.stop() } }
}
#endif
