// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A text with places `{1}`, `{2}`, … for values. Other braces are text.
struct Template: Sendable {
    enum Part: Equatable, Sendable {
        case literal([UInt8])
        /// The number of a place, from 1, and whether its value is a name or a code.
        case place(Int, isName: Bool)
    }

    let parts: [Part]
    /// The number of bytes outside of the places.
    let literalCount: Int
    /// The bytes with which each text of this template begins and ends; `nil` at a place.
    private let first: UInt8?
    private let last: UInt8?
    private let isOneLine: Bool
    /// Whether the template is of several texts itself.
    private let isJoined: Bool
    private let hasOneWord: Bool
    /// The places in brackets. Brackets in their values have their ends there.
    private let bracketed: [Int]

    init(_ text: String) {
        parts = Self.parts(Array(text.utf8))
        first = if case .literal(let bytes)? = parts.first { bytes.first } else { nil }
        last = if case .literal(let bytes)? = parts.last { bytes.last } else { nil }
        bracketed = zip(parts.indices, parts).compactMap { [parts] index, part in
            guard case .place(let number, _) = part, index > 0, index + 1 < parts.count else { return nil }
            guard case .literal(let before) = parts[index - 1], case .literal(let after) = parts[index + 1] else { return nil }
            return before.last == UInt8(ascii: "(") && after.first == UInt8(ascii: ")") ? number : nil
        }
        let own = parts.flatMap { part in if case .literal(let bytes) = part { bytes } else { [UInt8]() } }
        isOneLine = !own.contains(UInt8(ascii: "\n"))
        isJoined = own.contains(UInt8(ascii: ";"))
        hasOneWord = own.split { !(0x61...0x7A).contains($0 | 0x20) }.count <= 1
        literalCount = own.count
    }

    var places: [Int] { parts.compactMap { if case .place(let number, _) = $0 { number } else { nil } } }

    /// Whether the template says nothing but where its values are, such as `{1} on {2}`. A name can look like that, too.
    var isVague: Bool {
        guard case .place? = parts.first else { return false }
        let letters = parts.reduce(0) { count, part in
            guard case .literal(let bytes) = part else { return count }
            return count + bytes.count { (0x61...0x7A).contains($0 | 0x20) }
        }
        return letters < 3
    }

    /// Whether the template is a value and a word, such as `{1} files`. The value is then a word, too.
    private var isCount: Bool {
        guard parts.count == 2, case .place = parts[0], case .literal(let literal) = parts[1] else { return false }
        return literal.first == UInt8(ascii: " ") && !literal.dropFirst().contains(UInt8(ascii: " "))
    }

    /// Whether a value has the end of one text and the beginning of another. Only one of them could be of this template then. Names,
    /// values in brackets, and all that follows a label, such as `ready: {1}`, can be several texts.
    private func holdsAnotherText(_ values: [Int: Value], _ text: ArraySlice<UInt8>) -> Bool {
        guard !isJoined else { return false }
        return values.contains { number, value in
            !value.isName && !bracketed.contains(number) && !isLabelled(number) && Self.hasNextText(text[value.range])
        }
    }

    /// What is in quotes is a name or a code.
    private static func hasNextText(_ text: ArraySlice<UInt8>) -> Bool {
        var isQuoted = false
        return zip(text, text.dropFirst()).enumerated().contains { offset, pair in
            if pair.0 == UInt8(ascii: "\"") || pair.0 == UInt8(ascii: "`") { isQuoted.toggle() }
            return !isQuoted && offset > 0 && pair == (UInt8(ascii: ";"), UInt8(ascii: " "))
        }
    }

    /// Whether a value is all that follows the template's own beginning.
    private func isRest(_ number: Int) -> Bool {
        guard first != nil, case .place(number, _)? = parts.last else { return false }
        return true
    }

    private func isLabelled(_ number: Int) -> Bool {
        guard isRest(number), case .literal(let before)? = parts.dropLast().last else { return false }
        return before.suffix(2) == Array(": ".utf8)
    }

    /// What a text may begin with in a template.
    enum Beginning {
        case anything
        /// A value that is one part, because those before could be texts of their own.
        case onePart
        /// No value, because it would have the separator of the part before.
        case literal
    }

    /// A value of a text.
    struct Value {
        let range: Range<Int>
        let isName: Bool
    }

    /// Returns the values of a whole text, by their places; `nil` if the text is not one of this template. The literals are found from left
    /// to right, without another try, so that the time is linear.
    /// - Parameters:
    ///   - beginning: What the template may begin with. One of a single word begins with one part at most, unless it is vague.
    ///   - steps: Counts the bytes that were compared.
    func values(of text: ArraySlice<UInt8>, beginning: Beginning = .anything, _ steps: inout Int) -> [Int: Value]? {
        // Nearly all templates end here.
        guard text.count >= literalCount, first == nil || first == text.first, last == nil || last == text.last,
            let values = found(in: text, &steps)
        else { return nil }
        // The lines of a text are texts of their own, unless a template begins it, such as `Error: {1}`.
        if isOneLine, values.contains(where: { text[$1.range].contains(UInt8(ascii: "\n")) && !isRest($0) }) { return nil }
        if holdsAnotherText(values, text) { return nil }
        if case .place(let number, _)? = parts.first, let value = values[number] {
            if beginning == .literal { return nil }
            if beginning == .onePart || hasOneWord && !isVague, Separator.divides(text[value.range], &steps) { return nil }
        }
        if isCount, values.values.contains(where: { !Self.isWord(text[$0.range]) }) { return nil }
        // A text does not begin with a space, so this one is a part of a line.
        if case .place? = parts.first, text.first == UInt8(ascii: " ") { return nil }
        return bracketed.allSatisfy { values[$0].map { Self.isBalanced(text[$0.range]) } ?? true } ? values : nil
    }

    private func found(in text: ArraySlice<UInt8>, _ steps: inout Int) -> [Int: Value]? {
        var values: [Int: Value] = [:]
        var position = text.startIndex
        var open: (number: Int, isName: Bool)?
        for (index, part) in parts.enumerated() {
            switch part {
            case .place(let number, let isName):
                // A place that follows another one directly gets the whole value.
                if let open { values[open.number] = Value(range: position..<position, isName: open.isName) }
                open = (number, isName)
            case .literal(let literal):
                let isLast = index == parts.count - 1
                let found = Self.find(literal, in: text, from: position, open == nil, isLast, &steps)
                guard let found else { return nil }
                if let open { values[open.number] = Value(range: position..<found, isName: open.isName) }
                open = nil
                position = found + literal.count
            }
        }
        guard let open else { return position == text.endIndex ? values : nil }
        values[open.number] = Value(range: position..<text.endIndex, isName: open.isName)
        return values
    }

    /// Returns where a literal begins: at the position if it follows another literal or the start, and at the end of the text if it is the
    /// last part.
    private static func find(
        _ literal: [UInt8],
        in text: ArraySlice<UInt8>,
        from position: Int,
        _ isFixed: Bool,
        _ isLast: Bool,
        _ steps: inout Int
    ) -> Int? {
        let end = text.endIndex - literal.count
        guard position <= end else { return nil }
        if isFixed { return isEqual(literal, text, position, &steps) ? position : nil }
        if isLast { return isEqual(literal, text, end, &steps) ? end : nil }
        return (position...end).first { isEqual(literal, text, $0, &steps) }
    }

    private static func isEqual(_ literal: [UInt8], _ text: ArraySlice<UInt8>, _ position: Int, _ steps: inout Int) -> Bool {
        for (offset, byte) in literal.enumerated() {
            steps += 1
            guard text[position + offset] == byte else { return false }
        }
        return true
    }

    private static func isWord(_ text: ArraySlice<UInt8>) -> Bool {
        guard let first = text.first else { return false }
        let isLetterOrDigit = (0x61...0x7A).contains(first | 0x20) || (0x30...0x39).contains(first) || first >= 0x80
        return isLetterOrDigit && !text.contains(UInt8(ascii: " "))
    }

    private static func isBalanced(_ text: ArraySlice<UInt8>) -> Bool {
        var depth = 0
        for byte in text {
            if byte == UInt8(ascii: "(") { depth += 1 }
            if byte == UInt8(ascii: ")") { depth -= 1 }
            if depth < 0 { return false }
        }
        return depth == 0
    }

    private static func parts(_ bytes: [UInt8]) -> [Part] {
        var parts: [Part] = []
        var literal: [UInt8] = []
        var isCode = false
        var index = 0
        while index < bytes.count {
            guard let (number, length) = place(bytes[index...]) else {
                if bytes[index] == UInt8(ascii: "`") { isCode.toggle() }
                literal.append(bytes[index])
                index += 1
                continue
            }
            let next = index + length < bytes.count ? bytes[index + length] : nil
            let isQuoted = literal.last.map { $0 == next && ($0 == UInt8(ascii: "'") || $0 == UInt8(ascii: "\"")) } ?? false
            if !literal.isEmpty { parts.append(.literal(literal)) }
            parts.append(.place(number, isName: isQuoted || isCode))
            literal = []
            index += length
        }
        return literal.isEmpty ? parts : parts + [.literal(literal)]
    }

    /// Returns the number of the place at the start, such as `{12}`, and its length.
    private static func place(_ bytes: ArraySlice<UInt8>) -> (number: Int, length: Int)? {
        guard bytes.first == UInt8(ascii: "{") else { return nil }
        let digits = bytes.dropFirst().prefix { (0x30...0x39).contains($0) }
        guard (1...2).contains(digits.count), bytes.dropFirst(1 + digits.count).first == UInt8(ascii: "}") else { return nil }
        return (digits.reduce(0) { 10 * $0 + Int($1) - 0x30 }, digits.count + 2)
    }
}
