// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension String {
    /// Whether the text has a control character: U+0000 to U+001F, or U+007F to U+009F. Different programs show, compare and store such a
    /// text in different ways, so that no text from outside that is looked up or shown may have one.
    package var hasControlCharacters: Bool {
        var last: UInt8 = 0
        for byte in utf8 {
            // In UTF-8, U+0080 to U+009F begin with 0xC2.
            if byte < 0x20 || byte == 0x7F || last == 0xC2 && byte < 0xA0 { return true }
            last = byte
        }
        return false
    }
}
