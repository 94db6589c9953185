// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Synchronization

/// Plain connections leave their event loops: threads of their own copy between the two sockets.
final class SpliceDataPath: TunnelDataPath {
    /// One for each processor. They need files, of which there may be none left later, so they are made at once.
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
