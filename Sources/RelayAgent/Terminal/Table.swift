// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ProgramTexts

/// A table with aligned columns.
struct Table {
    struct Cell {
        /// What is not translated.
        var name = ""
        var text: String
        var emphasis: Style.Emphasis?

        init(_ text: String, _ emphasis: Style.Emphasis? = nil) {
            self.text = text
            self.emphasis = emphasis
        }

        /// A name or a code.
        /// - Parameter note: What the program says of it, behind it.
        init(name: String, note: String = "", _ emphasis: Style.Emphasis? = nil) {
            self.name = name
            self.text = note
            self.emphasis = emphasis
        }

        func shown(_ translation: Translation) -> String { name + translation.text(text) }
    }

    private var rows: [[Cell]] = []

    init(_ titles: String...) { rows.append(titles.map { Cell($0, .faint) }) }

    mutating func add(_ cells: Cell...) { rows.append(cells) }

    func lines(_ style: Style) -> [String] {
        let count = rows.map(\.count).max() ?? 0
        let texts = rows.map { row in row.map { $0.shown(style.translation) } }
        let widths = (0..<count).map { column in texts.map { column < $0.count ? Self.width($0[column]) : 0 }.max() ?? 0 }
        return zip(rows, texts).map { row, texts in
            let line = zip(row, texts).enumerated().map { column, cell in
                let isLast = column == row.count - 1
                let padding = isLast ? "" : String(repeating: " ", count: widths[column] - Self.width(cell.1) + 2)
                return style.emphasised(cell.1, cell.0.emphasis) + padding
            }.joined()
            return line.isEmpty ? line : style.translated(line)
        }
    }

    /// The start of a text that has at most a number of terminal columns.
    static func prefix(_ text: String, columns: Int) -> String {
        var left = columns
        return String(
            text.prefix { character in
                left -= width(String(character))
                return left >= 0
            }
        )
    }

    /// The number of terminal columns of a text: two for East Asian characters and emoji.
    static func width(_ text: String) -> Int {
        text.reduce(0) { width, character in
            guard let first = character.unicodeScalars.first else { return width }
            let isWide =
                switch first.value {
                case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6,
                    0x20000...0x3FFFD:
                    true
                default: first.properties.isEmojiPresentation || character.unicodeScalars.contains("\u{FE0F}")
                }
            return width + (isWide ? 2 : 1)
        }
    }
}
