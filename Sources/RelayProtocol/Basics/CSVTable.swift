// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A table in the form of RFC 4180, with one header row. The text is not trusted. A byte order mark is passed over, lines end with LF or CRLF,
/// and empty lines are left out.
package struct CSVTable: Sendable {
    package struct Row: Sendable {
        /// Of its beginning, from 1.
        package var line: Int
        package var fields: [String]
    }

    package struct Problem: Hashable, Sendable, CustomStringConvertible {
        package var line: Int
        package var text: String

        package init(line: Int, _ text: String) { (self.line, self.text) = (line, text) }

        package var description: String { "line \(line): \(text)" }
    }

    /// The rows without the header.
    package private(set) var rows: [Row] = []
    package private(set) var header: [String] = []
    /// What is wrong, in the order of the lines. Rows that are named here are not in `rows`.
    package private(set) var problems: [Problem] = []

    /// - Parameter bytes: The caller bounds their number.
    package init(_ bytes: [UInt8]) {
        var reader = Reader(bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...])
        while let (row, problem) = reader.next() {
            if let problem {
                problems.append(Problem(line: row.line, problem))
            } else if header.isEmpty {
                header = row.fields
            } else if row.fields.count == header.count {
                rows.append(row)
            } else {
                problems.append(Problem(line: row.line, "it has \(row.fields.count) fields, and the header has \(header.count)"))
            }
        }
    }

    /// One line of a table.
    /// - Parameter fields: Quoted where it is necessary.
    package static func line(_ fields: [String]) -> String {
        fields.map { field in
            let isPlain = field.utf8.allSatisfy { ![UInt8(ascii: ","), UInt8(ascii: "\""), 0x0A, 0x0D].contains($0) }
            return isPlain ? field : "\"\(field.replacing("\"", with: "\"\""))\""
        }.joined(separator: ",")
    }

    private struct Reader {
        private let bytes: ArraySlice<UInt8>
        private var place: Int
        private var line = 1

        init(_ bytes: ArraySlice<UInt8>) {
            self.bytes = bytes
            place = bytes.startIndex
        }

        private static let (quote, comma, lf, cr) = (UInt8(ascii: "\""), UInt8(ascii: ","), UInt8(ascii: "\n"), UInt8(ascii: "\r"))

        private var byte: UInt8? { place < bytes.endIndex ? bytes[place] : nil }

        private var isAtLineEnd: Bool {
            byte == nil || byte == Self.lf || (byte == Self.cr && bytes.dropFirst(place + 1 - bytes.startIndex).first == Self.lf)
        }

        private mutating func passLineEnd() {
            if byte == Self.cr { place += 1 }
            if byte == Self.lf { place += 1 }
            line += 1
        }

        /// The next row, and why it is none; `nil` at the end.
        mutating func next() -> (Row, String?)? {
            while byte != nil, isAtLineEnd { passLineEnd() }
            guard byte != nil else { return nil }
            var (row, problem) = (Row(line: line, fields: []), String?.none)
            repeat {
                let (field, wrong) = byte == Self.quote ? quoted() : plain()
                problem = problem ?? wrong
                if let text = String(validating: field, as: UTF8.self) {
                    row.fields.append(text)
                } else {
                    problem = problem ?? "it is not UTF-8"
                }
            } while passComma()
            if !isAtLineEnd {
                problem = problem ?? "text follows a closing quote"
                while !isAtLineEnd { place += 1 }
            }
            passLineEnd()
            return (row, problem)
        }

        private mutating func passComma() -> Bool {
            guard byte == Self.comma else { return false }
            place += 1
            return true
        }

        private mutating func plain() -> ([UInt8], String?) {
            var (field, problem) = ([UInt8](), String?.none)
            while let next = byte, next != Self.comma, !isAtLineEnd {
                if next == Self.quote { problem = "a field with a quote has to begin and end with one, and double it" }
                if Self.isControl(next) { problem = problem ?? "it has a control character" }
                field.append(next)
                place += 1
            }
            return (field, problem)
        }

        private mutating func quoted() -> ([UInt8], String?) {
            var (field, problem) = ([UInt8](), String?.none)
            place += 1
            while let next = byte {
                place += 1
                if next == Self.quote {
                    guard byte == Self.quote else { return (field, problem) }
                    place += 1
                }
                if next == Self.lf { line += 1 }
                if Self.isControl(next), next != Self.lf, next != Self.cr { problem = problem ?? "it has a control character" }
                field.append(next)
            }
            return (field, "a quote is not closed")
        }

        private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F }
    }
}
