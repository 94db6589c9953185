// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What separates the parts of a text that is made of several texts.
enum Separator {
    /// The space between columns, and what joins sentences and lists.
    private static let all = ["  ", "; ", ", ", ": ", ". ", " and ", " or ", " (", ") ", " [", ")"].map { Array($0.utf8) }

    struct Part {
        let separator: Range<Int>
        let text: Range<Int>
    }

    /// Whether a line has several parts, or begins with a separator.
    static func divides(_ bytes: ArraySlice<UInt8>, _ steps: inout Int) -> Bool {
        let parts = parts(bytes, maximum: 2, &steps)
        return parts.count > 1 || parts.first?.separator.isEmpty == false
    }

    /// Divides a line. What is in quotes is not divided.
    static func parts(_ bytes: ArraySlice<UInt8>, maximum: Int, _ steps: inout Int) -> [Part] {
        var parts: [Part] = []
        var (start, text, position) = (bytes.startIndex, bytes.startIndex, bytes.startIndex)
        var isQuoted = false
        while position < bytes.endIndex, parts.count < maximum - 1 {
            steps += 1
            if bytes[position] == UInt8(ascii: "\"") || bytes[position] == UInt8(ascii: "`") { isQuoted.toggle() }
            guard !isQuoted, let separator = all.first(where: { bytes[position...].starts(with: $0) }) else {
                position += 1
                continue
            }
            if position > start { parts.append(Part(separator: start..<text, text: text..<position)) }
            start = position
            position += separator.count
            while position < bytes.endIndex, bytes[position] == UInt8(ascii: " ") { position += 1 }
            text = position
        }
        return parts + [Part(separator: start..<text, text: text..<bytes.endIndex)]
    }
}
