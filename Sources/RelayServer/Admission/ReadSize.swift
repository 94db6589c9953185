// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// How much a connection reads at once. It keeps the memory of its last read, and nearly all connections wait nearly all the time.
extension Channel {
    /// Small reads only, one in a turn of the loop: while nobody is authenticated.
    func readsSmall(_ policy: AdmissionPolicy = .standard) {
        try? syncOptions?.setOption(.maxMessagesPerRead, value: 1)
        try? syncOptions?.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: policy.smallRead))
    }

    /// Small reads, and larger ones as more comes: a control channel.
    func readsMessages(_ policy: AdmissionPolicy = .standard) {
        readsAdaptively(from: policy.smallRead, to: policy.controlRead, policy)
    }

    /// Larger reads: a tunnel.
    func readsTunnel(_ policy: AdmissionPolicy = .standard) {
        readsAdaptively(from: policy.usualRead, to: policy.largestRead, policy)
    }

    private func readsAdaptively(from initial: Int, to most: Int, _ policy: AdmissionPolicy) {
        let sizes = AdaptiveRecvByteBufferAllocator(minimum: policy.smallRead, initial: initial, maximum: most)
        try? syncOptions?.setOption(.recvAllocator, value: sizes)
    }
}
