// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Identifies a session on all its streams: 16 random bytes, which its opener chooses.
package struct SessionID: Hashable, Sendable {
    private let high: UInt64
    private let low: UInt64

    /// Generates a random id.
    package init(using random: inout some RandomNumberGenerator) {
        self.high = random.next()
        self.low = random.next()
    }

    /// The id with these 16 bytes; `nil` for any other number of bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        self.high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        self.low = bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The 16 bytes.
    package var bytes: [UInt8] {
        [high, low].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
    }
}
