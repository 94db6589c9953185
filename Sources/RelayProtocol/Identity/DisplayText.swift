// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Text from another device for display to a user.
package enum DisplayText {
    /// Whether a text contains no character that controls the terminal, the writing direction or the line, so that it cannot
    /// imitate other output.
    package static func isPlain(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { !isHarmful($0) }
    }

    /// Whether a text contains a visible character.
    package static func isVisible(_ text: String) -> Bool {
        text.unicodeScalars.contains { scalar in
            // The blank braille pattern is a symbol without a visible mark.
            !scalar.properties.isWhitespace && !scalar.properties.isDefaultIgnorableCodePoint && scalar != "\u{2800}"
        }
    }

    /// Whether a text can be the name of a device.
    package static func isName(_ text: String) -> Bool {
        let most = Limits()[.displayNameCharacters]
        return text.utf8.count <= 16 * most && text.count <= most && isPlain(text) && isVisible(text)
    }

    /// The text with every harmful character replaced by U+FFFD.
    package static func sanitized(_ text: String) -> String { String(sanitized(text.unicodeScalars) { isHarmful($0) }) }

    /// The same for a text of several lines: line feeds and tabs stay.
    package static func sanitizedLines(_ text: String) -> String {
        String(sanitized(text.unicodeScalars) { $0 != "\n" && $0 != "\t" && isHarmful($0) })
    }

    /// JSON text with every harmful character in it escaped.
    package static func escaped(json: String) -> String {
        guard !isPlain(json) else { return json }
        var text = String.UnicodeScalarView()
        for scalar in json.unicodeScalars {
            // JSON has line feeds between its values only; inside a text they are escaped already.
            guard isHarmful(scalar), scalar != "\n" else {
                text.append(scalar)
                continue
            }
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                text += "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".unicodeScalars
            }
        }
        return String(text)
    }

    private static func sanitized(
        _ scalars: String.UnicodeScalarView,
        _ isHarmful: (Unicode.Scalar) -> Bool
    ) -> String.UnicodeScalarView {
        var plain = String.UnicodeScalarView()
        plain.append(contentsOf: scalars.map { isHarmful($0) ? "\u{FFFD}" : $0 })
        return plain
    }

    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: true
        case .format:
            // Joiners are part of emoji and several scripts. All other format characters are invisible or change the writing direction.
            scalar != "\u{200C}" && scalar != "\u{200D}"
        default: false
        }
    }
}

/// Text that programs compare: ids of accounts and apps, names of services and attributes.
package enum ProgramText {
    /// Whether the text is 1 to 256 visible ASCII characters. Unlike Unicode texts, such texts compare equal in all programs or in none.
    package static func isValid(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
