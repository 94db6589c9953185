// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The name of an account, as people type it to sign in. Names that differ only in case, width or the way that a keyboard composes them
/// are one name.
package struct AccountName: Hashable, Sendable {
    /// In Unicode scalars.
    package static let maximumCharacters = 64

    /// As it is shown: without white space around it.
    package let text: String
    /// What accounts are looked up and compared by.
    package let key: String

    /// `nil` if no account can have the name: it has 1 to 64 characters, some of them visible, and none that controls a terminal or the
    /// writing direction.
    package init?(_ text: String) {
        // Bounds the work before the text is looked at.
        guard text.utf8.count <= 1_024 else { return nil }
        let scalars = text.unicodeScalars.drop { $0.properties.isWhitespace }
        var trimmed = String(String.UnicodeScalarView(scalars))
        while let last = trimmed.unicodeScalars.last, last.properties.isWhitespace { trimmed.unicodeScalars.removeLast() }
        guard (1...AccountName.maximumCharacters).contains(trimmed.unicodeScalars.count), DisplayText.isPlain(trimmed),
            DisplayText.isVisible(trimmed)
        else { return nil }
        self.text = trimmed
        self.key = AccountName.folded(trimmed)
    }

    /// The first of the wished names that an account can have. If others have it, it gets a number.
    package static func choose(from wished: [String], taken: [String]) -> AccountName? {
        guard let first = wished.lazy.compactMap({ AccountName($0) }).first else { return nil }
        let keys = Set(taken.compactMap { AccountName($0)?.key })
        guard keys.contains(first.key) else { return first }
        let short = String(first.text.unicodeScalars.prefix(maximumCharacters - 6))
        return (2...keys.count + 2).lazy.compactMap { AccountName("\(short) \($0)") }.first { !keys.contains($0.key) }
    }

    /// The text without differences of case, width, composition and characters that no font shows. It resembles `toNFKC_Casefold` (Unicode
    /// §3.13), and folds more: a case folding by upper case also makes "ß" equal to "ss", and "ı" to "i".
    static func folded(_ text: String) -> String {
        func scalars(_ text: String, _ map: (Unicode.Scalar.Properties) -> String) -> String {
            text.unicodeScalars.map { map($0.properties) }.joined()
        }
        var visible = String.UnicodeScalarView()
        visible.append(contentsOf: text.unicodeScalars.lazy.filter { !$0.properties.isDefaultIgnorableCodePoint })
        // A decomposition can have letters that have a case of their own, and so on: two rounds reach the end for every character.
        return (0..<2).reduce(String(visible)) { text, _ in
            let decomposed = text.decomposedStringWithCompatibilityMapping
            return scalars(scalars(decomposed, \.uppercaseMapping), \.lowercaseMapping).precomposedStringWithCompatibilityMapping
        }
    }
}
