// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The name of an account, as people type it to sign in. Names that differ only in case, width or the way that a keyboard composes them
/// are the same name.
package struct AccountName: Hashable, Sendable {
    /// In Unicode scalars.
    package static let maximumCharacters = 64

    /// The name as it is shown, without surrounding white space.
    package let text: String
    /// The key by which accounts are looked up and compared.
    package let key: String

    /// Returns `nil` if the name is not valid. A valid name has 1 to 64 characters, some of them visible, and none that controls a terminal
    /// or the writing direction.
    package init?(_ text: String) {
        // Bound the work before the text is examined.
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

    /// Returns the first of the wished names that is valid. If it is taken, a number is added to it.
    package static func choose(from wished: [String], taken: [String]) -> AccountName? {
        guard let first = wished.lazy.compactMap({ AccountName($0) }).first else { return nil }
        let keys = Set(taken.compactMap { AccountName($0)?.key })
        guard keys.contains(first.key) else { return first }
        let short = String(first.text.unicodeScalars.prefix(maximumCharacters - 6))
        return (2...keys.count + 2).lazy.compactMap { AccountName("\(short) \($0)") }.first { !keys.contains($0.key) }
    }

    /// Returns the text without differences of case, width and composition, and without characters that no font shows. It resembles
    /// `toNFKC_Casefold` (Unicode §3.13), and folds more: folding by upper case also makes "ß" equal to "ss", and "ı" to "i".
    static func folded(_ text: String) -> String {
        func scalars(_ text: String, _ map: (Unicode.Scalar.Properties) -> String) -> String {
            text.unicodeScalars.map { map($0.properties) }.joined()
        }
        var visible = String.UnicodeScalarView()
        visible.append(contentsOf: text.unicodeScalars.lazy.filter { !$0.properties.isDefaultIgnorableCodePoint })
        // A decomposition can contain letters that have a case of their own. Two rounds are enough for every character.
        return (0..<2).reduce(String(visible)) { text, _ in
            let decomposed = text.decomposedStringWithCompatibilityMapping
            return scalars(scalars(decomposed, \.uppercaseMapping), \.lowercaseMapping).precomposedStringWithCompatibilityMapping
        }
    }
}
