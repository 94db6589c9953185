// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Identifies a session on all its streams: 16 random bytes, which its opener chooses.
package struct SessionID: Hashable, Sendable {
    private static let byteCount = 16

    package let bytes: [UInt8]

    /// Generates a random id.
    package init(using random: inout some RandomNumberGenerator) { bytes = randomBytes(Self.byteCount, using: &random) }

    /// The id with these 16 bytes; `nil` for any other number of bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }
}
