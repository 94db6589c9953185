// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Text of another device, ready for a label. The SDK checks the names of devices and apps. Messages are the app's to check.
enum ShownText {
    static let mostCharacters = 500

    /// The text without characters that control the line or the writing direction, and not longer than a label needs.
    static func clean(_ text: String) -> String {
        // The scalars are bounded first: one character can have any number of them.
        let scalars = text.unicodeScalars.prefix(8 * mostCharacters).map { isHarmful($0) ? "\u{FFFD}" : $0 }
        var plain = String.UnicodeScalarView()
        plain.append(contentsOf: scalars)
        let shown = String(plain)
        return shown.count > mostCharacters ? shown.prefix(mostCharacters) + "…" : shown
    }

    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: true
        // Joiners are part of emoji and of several scripts.
        case .format: scalar != "\u{200C}" && scalar != "\u{200D}"
        default: false
        }
    }
}
