// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The read sizes of connections. A connection keeps the buffer of its last read, and nearly all connections are idle nearly all the
/// time.
extension Channel {
    /// Small reads only, one per iteration of the loop: before authentication.
    func readsSmall(_ policy: AdmissionPolicy = .standard) {
        try? syncOptions?.setOption(.maxMessagesPerRead, value: 1)
        try? syncOptions?.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: policy.smallRead))
    }

    /// Small reads that grow with the traffic: a control channel.
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
