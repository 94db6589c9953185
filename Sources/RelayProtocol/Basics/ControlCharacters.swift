// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension String {
    /// Whether the text has a control character: U+0000 to U+001F, or U+007F to U+009F. Different programs show, compare and store such a
    /// text in different ways, so that no text from outside that is looked up or shown may have one.
    package var hasControlCharacters: Bool {
        var text = self
        return text.withUTF8 { bytes in
            // Without branches, so that the processor looks at many bytes at once. In UTF-8, U+0080 to U+009F begin with 0xC2.
            let (control, start): (UInt8, UInt8) = (1, 2)
            let found = bytes.reduce(UInt8(0)) { found, byte in
                found | (byte < 0x20 ? control : 0) | (byte == 0x7F ? control : 0) | (byte == 0xC2 ? start : 0)
            }
            return found & control != 0 || found & start != 0 && zip(bytes, bytes.dropFirst()).contains { $0 == 0xC2 && $1 < 0xA0 }
        }
    }
}
