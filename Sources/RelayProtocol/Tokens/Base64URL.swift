// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Base64 in the URL alphabet, without padding (RFC 4648 §5, RFC 7515 §2).
package enum Base64URL {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String { Base64.url.encode(Array(bytes)) }

    /// Decodes a text; `nil` unless it is the canonical encoding of its bytes.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? { decode(Array(text.utf8)[...]) }

    /// Decodes ASCII bytes.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? { text.withUnsafeBufferPointer { Base64.url.decode($0) } }
}
