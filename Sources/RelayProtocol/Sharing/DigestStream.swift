// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// The SHA-256 of a content that arrives in parts.
package struct DigestStream: Sendable {
    private var hash = SHA256()

    package init() {}

    package mutating func add(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }

    /// The digest of all bytes so far. More can be added.
    package var digest: Digest256 { Digest256(hash.finalize()) }
}
