// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The words of the issuer's pages in one language: texts by their keys. What an operator or another person has written is no word, and
/// neither are codes.
package struct PageWords: Sendable {
    package let language: PageLanguage
    private let texts: [String: String]

    /// A part of a text.
    package enum Part: Hashable, Sendable {
        case words(String)
        /// The place of a value, by its name.
        case value(String)
    }

    private static let all: [PageLanguage: PageWords] = Dictionary(
        PageLanguage.allCases.map { language in
            let file = ConsoleFile.words.first { $0.path == "i18n/pages/\(language.rawValue).json" }
            let texts = file.flatMap { try? JSONDecoder().decode([String: String].self, from: Data($0.bytes)) }
            return (language, PageWords(language: language, texts: texts ?? [:]))
        },
        uniquingKeysWith: { first, _ in first }
    )

    package static let english = PageWords(.english)

    package init(_ language: PageLanguage) { self = Self.all[language] ?? PageWords(language: language, texts: [:]) }

    private init(language: PageLanguage, texts: [String: String]) {
        self.language = language
        self.texts = texts
    }

    /// - Parameter field: The value of a browser's `Accept-Language`; `nil` if it sends none.
    package init(accepting field: String?) { self.init(PageLanguage(accepting: field)) }

    package func has(_ key: String) -> Bool { texts[key] != nil }

    /// Returns the text of a key. A key without words here has those of English.
    /// - Parameter count: Chooses the form of a text that has several.
    package func parts(_ key: String, count: Int? = nil) -> [Part] {
        let key = count.map { "\(key).\(form(of: $0))" } ?? key
        return Self.parts(of: texts[key] ?? Self.all[.english]?.texts[key] ?? key)
    }

    /// The same as a plain text.
    /// - Parameter values: The values in the text, by their names.
    package func text(_ key: String, _ values: [String: String] = [:]) -> String {
        parts(key).map { part in
            switch part {
            case .words(let words): words
            case .value(let name): values[name] ?? ""
            }
        }
        .joined()
    }

    /// The form of a text with a number (Unicode CLDR). French has a third form, for millions, which no page needs.
    private func form(of count: Int) -> String {
        let isOne =
            switch language {
            case .english, .german: count == 1
            case .french: count == 0 || count == 1
            case .chinese: false
            }
        return isOne ? "one" : "other"
    }

    private static func parts(of text: String) -> [Part] {
        var parts: [Part] = []
        for piece in text.split(separator: "{" as Character, omittingEmptySubsequences: false) {  // ASCII only
            let halves = piece.split(separator: "}" as Character, maxSplits: 1, omittingEmptySubsequences: false)  // ASCII only
            if halves.count == 2 { parts.append(.value(String(halves[0]))) }
            if let words = halves.last, !words.isEmpty { parts.append(.words(String(words))) }
        }
        return parts
    }
}

/// A text of a page before its language is known: a key, and the values in it.
package struct PageText: Hashable, Sendable {
    package let key: String
    package let values: [String: String]

    package init(_ key: String, _ values: [String: String] = [:]) {
        self.key = key
        self.values = values
    }

    /// What programs get, whose texts are English.
    package var english: String { PageWords.english.text(key, values) }
}
