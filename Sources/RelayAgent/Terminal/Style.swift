// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Text style for people. `show` marks a part of a text. Only the console turns marks into control sequences, after it has removed all
/// others. The marks contain a random number, so that no text from outside can contain them.
package struct Style: Sendable {
    enum Emphasis: String {
        case good = "32"
        case attention = "33"
        case faint = "2"
        case strong = "1"
    }

    package let hasColours: Bool
    private let mark: [Unicode.Scalar]

    package init(hasColours: Bool = false) {
        self.hasColours = hasColours
        // If a mark reached a terminal, it would still do nothing.
        mark = hasColours ? Array("\u{1B}\(UInt64.random(in: .min ... .max));".unicodeScalars) : []
    }

    func show(_ text: String, _ emphasis: Emphasis?) -> String {
        guard hasColours, let emphasis else { return text }
        return marked(emphasis.rawValue) + text + marked("0")
    }

    private func marked(_ code: String) -> String { String(String.UnicodeScalarView(mark)) + "\(code);" }

    /// A line as a terminal gets it: what controls a terminal is replaced by U+FFFD, and the marks of this style by control sequences.
    func rendered(_ line: String) -> String {
        guard hasColours else { return DisplayText.sanitized(line) }
        let parts = Array(line.unicodeScalars).split(separator: mark, omittingEmptySubsequences: false)
        return parts.enumerated().map { index, part in
            let end = index == 0 ? nil : part.firstIndex(of: ";")
            let text = DisplayText.sanitized(String(String.UnicodeScalarView(part[(end.map { $0 + 1 } ?? part.startIndex)...])))
            return (end.map { "\u{1B}[\(String(String.UnicodeScalarView(part[..<$0])))m" } ?? "") + text
        }.joined()
    }
}
