// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Base64 in the alphabet for URLs, without padding (RFC 4648 §5, RFC 7515 §2).
package enum Base64URL {
    package static func encode(_ bytes: some Sequence<UInt8>) -> String { Base64.url.encode(Array(bytes)) }

    /// `nil` for anything but the one text that these bytes have.
    package static func decode(_ text: some StringProtocol) -> [UInt8]? { decode(Array(text.utf8)[...]) }

    /// The same, of a text in ASCII.
    static func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? { text.withUnsafeBufferPointer { Base64.url.decode($0) } }
}
