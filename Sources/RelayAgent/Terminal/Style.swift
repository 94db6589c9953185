// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import ProgramTexts
import RelayProtocol

/// Text style for people. `show` marks a part of a text. Only the console turns marks into control sequences, after it has removed all
/// others. The marks contain a random number, so that no text from outside can contain them.
///
/// Texts are English. The style translates what has an emphasis, and each line that is not a row of a table, whose cells are translated
/// before their width counts.
package struct Style: Sendable {
    enum Emphasis: String {
        case good = "32"
        case attention = "33"
        case faint = "2"
        /// For what people have named.
        case strong = "1"
    }

    package let hasColours: Bool
    let translation: Translation
    private let mark: [Unicode.Scalar]
    /// Ends a mark and its code. It is nothing that separates texts.
    private static let end: Unicode.Scalar = "\u{1B}"

    package init(hasColours: Bool = false, translation: Translation = .english) {
        self.hasColours = hasColours
        self.translation = translation
        // If a mark reached a terminal, it would still do nothing.
        mark = hasColours || !translation.isEnglish ? Array("\u{1B}\(UInt64.random(in: .min ... .max))\(Self.end)".unicodeScalars) : []
    }

    func show(_ text: String, _ emphasis: Emphasis?) -> String {
        guard let emphasis else { return text }
        return emphasised(emphasis == .strong ? text : translation.text(text), emphasis)
    }

    /// The same for a name, or for a text that is translated.
    func emphasised(_ text: String, _ emphasis: Emphasis?) -> String {
        guard !mark.isEmpty, let emphasis else { return text }
        return marked(emphasis.rawValue) + text + marked("0")
    }

    /// A line whose parts are translated.
    func translated(_ line: String) -> String { translation.isEnglish ? line : marked(Self.translatedCode) + line }

    private static let translatedCode = "t"

    private func marked(_ code: String) -> String { String(String.UnicodeScalarView(mark)) + "\(code)\(Self.end)" }

    /// A line as a terminal gets it: what controls a terminal is replaced by U+FFFD, and the marks of this style by control sequences.
    func rendered(_ line: String) -> String {
        guard !mark.isEmpty else { return DisplayText.sanitized(line) }
        let line = line.contains(marked(Self.translatedCode)) ? line : translation.text(line)
        let parts = Array(line.unicodeScalars).split(separator: mark, omittingEmptySubsequences: false)
        return parts.enumerated().map { index, part in
            let end = index == 0 ? nil : part.firstIndex(of: Self.end)
            let code = end.map { String(String.UnicodeScalarView(part[..<$0])) }
            let text = DisplayText.sanitized(String(String.UnicodeScalarView(part[(end.map { $0 + 1 } ?? part.startIndex)...])))
            guard hasColours, let code, code != Self.translatedCode else { return text }
            return "\u{1B}[\(code)m\(text)"
        }.joined()
    }
}
