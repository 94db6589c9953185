// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The made language of the locale `en_XA`: English with other letters, longer, in brackets. What it leaves readable was forgotten.
enum PseudoLanguage {
    private static let letters = Dictionary(
        uniqueKeysWithValues: zip(Array("abcdefghijklmnopqrstuvwxyz".unicodeScalars), Array("áƀçðëƒğħïĵķłɱñöþɋřšŧüṽŵẋýž".unicodeScalars))
    )

    static func templates(_ english: some Sequence<String>) -> [String: String] {
        Dictionary(uniqueKeysWithValues: english.map { ($0, text($0)) })
    }

    /// Changes a template. Spaces at its ends stay there, and places and what is in backticks stay as they are.
    static func text(_ template: String) -> String {
        let isSpace = { (scalar: Unicode.Scalar) in scalar == " " || scalar == "\n" }
        let scalars = Array(template.unicodeScalars)
        let start = scalars.prefix(while: isSpace)
        let end = scalars.dropFirst(start.count).reversed().prefix(while: isSpace)
        var result = String.UnicodeScalarView()
        var isCode = false
        for scalar in scalars[start.count..<(scalars.count - end.count)] {
            if scalar == "`" { isCode.toggle() }
            result.append(isCode ? scalar : foreign(scalar))
        }
        let more = String(repeating: " ~~~", count: (scalars.count + 9) / 10)
        let sides = [start, Array(end.reversed())[...]].map { String(String.UnicodeScalarView($0)) }
        return "\(sides[0])[!!! \(String(result))\(more) !!!]\(sides[1])"
    }

    private static func foreign(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if let other = letters[scalar] { return other }
        guard ("A"..."Z").contains(scalar), let small = Unicode.Scalar(scalar.value | 0x20), let other = letters[small] else {
            return scalar
        }
        return other.properties.uppercaseMapping.unicodeScalars.first ?? other
    }
}
