// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// How much a connection reads in one go. What it has once read into it keeps, and nearly all connections wait nearly all the time.
enum ReadSize {
    /// Holds most messages of a control channel.
    static let small = 512
    static let usual = 2_048
    /// Of a control channel. What one read brings is worked off before the loop looks at other sockets: with 64 KiB, a channel's flood of small
    /// requests keeps other accounts waiting for a second.
    static let message = 8 << 10
    static let largest = 64 << 10
}

extension Channel {
    /// Nothing but small pieces, one in a turn of the loop: as long as nobody knows who is there.
    func readsSmall() {
        try? syncOptions?.setOption(.maxMessagesPerRead, value: 1)
        try? syncOptions?.setOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: ReadSize.small))
    }

    /// Larger pieces as more comes.
    func readsLarge(from initial: Int, to most: Int = ReadSize.largest) {
        let sizes = AdaptiveRecvByteBufferAllocator(minimum: ReadSize.small, initial: initial, maximum: most)
        try? syncOptions?.setOption(.recvAllocator, value: sizes)
    }
}
