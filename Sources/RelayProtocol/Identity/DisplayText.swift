// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Text from another device that a person will read.
package enum DisplayText {
    /// Whether a text has no character that controls a terminal, the writing direction or the line: nothing in it
    /// can pretend to be something else on screen.
    package static func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { !isHarmful($0) }
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
