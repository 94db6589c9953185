// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Texts beside a given one, for sweeps: what programs take for the same text, and what a program may cut, fold or drop.
package enum TextVariants {
    /// All control characters.
    package static let controls = (0...0x9F).filter { $0 < 0x20 || $0 >= 0x7F }.compactMap(Unicode.Scalar.init)

    private static let others: [Unicode.Scalar] = [
        "\u{301}", "\u{200D}", "\u{AD}", "\u{FE0F}", " ", "\u{A0}", "\u{3000}", "K", "\u{212A}", "ß", "ı", "a",
    ]

    /// A text with characters put in, taken out, or replaced by others of their kind.
    package static func variant(of text: String, using random: inout SeededGenerator) -> String {
        var scalars = Array(text.unicodeScalars)
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let place = Int.random(in: 0...scalars.count, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: scalars.insert(controls.randomElement(using: &random) ?? "\0", at: place)
            case 1: scalars.insert("\0", at: place)
            case 2: scalars.insert(others.randomElement(using: &random) ?? " ", at: place)
            case 3 where place < scalars.count:
                // The full-width form.
                let value = scalars[place].value
                if (0x21...0x7E).contains(value) { scalars[place] = Unicode.Scalar(value + 0xFEE0) ?? " " }
            case 4 where place < scalars.count:
                scalars.replaceSubrange(place...place, with: Array(scalars[place].properties.uppercaseMapping.unicodeScalars))
            default: if place < scalars.count { scalars.remove(at: place) }
            }
        }
        return String(String.UnicodeScalarView(scalars))
    }

    /// A text with each control character, and many variants of it.
    package static func texts(of text: String, _ count: Int, using random: inout SeededGenerator) -> [String] {
        [text] + controls.map { "\(text)\($0)x" } + (0..<count).map { _ in variant(of: text, using: &random) }
    }
}
