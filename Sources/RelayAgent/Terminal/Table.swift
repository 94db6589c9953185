// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A table with aligned columns.
struct Table {
    struct Cell {
        var text: String
        var emphasis: Style.Emphasis?

        init(_ text: String, _ emphasis: Style.Emphasis? = nil) {
            self.text = text
            self.emphasis = emphasis
        }
    }

    private var rows: [[Cell]] = []

    init(_ titles: String...) { rows.append(titles.map { Cell($0, .faint) }) }

    mutating func add(_ cells: Cell...) { rows.append(cells) }

    func lines(_ style: Style) -> [String] {
        let count = rows.map(\.count).max() ?? 0
        let widths = (0..<count).map { column in rows.map { column < $0.count ? Self.width($0[column].text) : 0 }.max() ?? 0 }
        return rows.map { row in
            row.enumerated().map { column, cell in
                let isLast = column == row.count - 1
                let padding = isLast ? "" : String(repeating: " ", count: widths[column] - Self.width(cell.text) + 2)
                return style.show(cell.text, cell.emphasis) + padding
            }.joined()
        }
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
