// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Text from another device that a person will read.
package enum DisplayText {
    /// Whether a text has no character that controls a terminal, the writing direction or the line: nothing in it
    /// can pretend to be something else on screen.
    package static func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { !isHarmful($0) }
    }

    /// Whether there is anything to see in a text.
    package static func isVisible(_ text: String) -> Bool {
        text.unicodeScalars.contains { scalar in
            // The braille pattern without dots is a symbol that shows nothing.
            !scalar.properties.isWhitespace && !scalar.properties.isDefaultIgnorableCodePoint && scalar != "\u{2800}"
        }
    }

    /// The text with every harmful character replaced by U+FFFD.
    package static func sanitized(_ text: String) -> String {
        var plain = String.UnicodeScalarView()
        plain.append(contentsOf: text.unicodeScalars.map { isHarmful($0) ? "\u{FFFD}" : $0 })
        return String(plain)
    }

    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: true
        case .format:
            // Joiners are part of emoji and of several scripts; all other format characters are invisible or turn the text.
            scalar != "\u{200C}" && scalar != "\u{200D}"
        default: false
        }
    }
}

/// Text that programs compare: ids of accounts and apps, names of services and attributes.
package enum ProgramText {
    /// 1 to 256 visible ASCII characters. No two of them are equal to one program and different to another, as Unicode texts are.
    package static func isValid(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
