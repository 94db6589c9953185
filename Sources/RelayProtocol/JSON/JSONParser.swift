// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A JSON parser. It produces the nodes of an index.
struct JSONParser {
    private let bytes: UnsafeBufferPointer<UInt8>
    private let bounds: JSONIndex.Bounds
    private var position = 0
    private(set) var nodes: [JSONIndex.Node] = []

    init(bytes: UnsafeBufferPointer<UInt8>, bounds: JSONIndex.Bounds) {
        self.bytes = bytes
        self.bounds = bounds
        nodes.reserveCapacity(16)
    }

    /// Parses a text, which is a single value.
    mutating func text() throws(JSONSyntaxError) {
        skipSpace()
        try value(depth: 1)
        skipSpace()
        guard position == bytes.count else { throw JSONSyntaxError(.trailingBytes, at: position) }
    }

    private mutating func value(depth: Int) throws(JSONSyntaxError) {
        guard nodes.count < bounds.values else { throw JSONSyntaxError(.tooManyValues, at: position) }
        switch next {
        case UInt8(ascii: "{"): try object(depth: depth)
        case UInt8(ascii: "["): try array(depth: depth)
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "t"): try word("true", .yes)
        case UInt8(ascii: "f"): try word("false", .no)
        case UInt8(ascii: "n"): try word("null", .null)
        default: try number()
        }
    }

    private mutating func object(depth: Int) throws(JSONSyntaxError) {
        let object = try begin(.object, depth: depth)
        if !skip("}") {
            repeat {
                skipSpace()
                guard next == UInt8(ascii: "\"") else { throw JSONSyntaxError(next == nil ? .truncated : .notAKey, at: position) }
                let key = nodes.count
                try string()
                skipSpace()
                try symbol(":")
                skipSpace()
                do throws(JSONSyntaxError) {
                    try value(depth: depth + 1)
                } catch {
                    throw error.inside(.key(text(of: nodes[key])))
                }
                skipSpace()
            } while skip(",")
            try symbol("}")
        }
        end(object)
    }

    private mutating func array(depth: Int) throws(JSONSyntaxError) {
        let array = try begin(.array, depth: depth)
        if !skip("]") {
            var count = 0
            repeat {
                skipSpace()
                do throws(JSONSyntaxError) {
                    try value(depth: depth + 1)
                } catch {
                    throw error.inside(.index(count))
                }
                count += 1
                skipSpace()
            } while skip(",")
            try symbol("]")
        }
        end(array)
    }

    private mutating func begin(_ kind: JSONIndex.Kind, depth: Int) throws(JSONSyntaxError) -> Int {
        guard depth <= bounds.levels else { throw JSONSyntaxError(.tooDeep, at: position) }
        add(kind, from: position, to: position)
        position += 1
        skipSpace()
        return nodes.count - 1
    }

    private mutating func end(_ container: Int) {
        nodes[container].end = position
        nodes[container].next = nodes.count
    }

    private mutating func add(_ kind: JSONIndex.Kind, from start: Int, to end: Int, hasEscapes: Bool = false) {
        nodes.append(JSONIndex.Node(kind: kind, hasEscapes: hasEscapes, start: start, end: end, next: nodes.count + 1))
    }

    /// A key's text, for an error path.
    private func text(of key: JSONIndex.Node) -> String {
        var text: [UInt8] = []
        JSONEscape.unescape(bytes, key.start..<key.end) { text.append($0) }
        return String(decoding: text, as: UTF8.self)
    }
}

// Scalars.
extension JSONParser {
    private mutating func string() throws(JSONSyntaxError) {
        position += 1
        let start = position
        var hasEscapes = false
        skipPlain()
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                add(.string, from: start, to: position, hasEscapes: hasEscapes)
                position += 1
                return
            case UInt8(ascii: "\\"):
                position += try JSONEscape.read(bytes, at: position).count
                hasEscapes = true
            case 0..<0x20: throw JSONSyntaxError(.invalidSyntax, at: position)
            default:
                position += 1
                skipPlain()
            }
        }
        throw JSONSyntaxError(.truncated, at: position)
    }

    /// Skips eight bytes at a time while none of them is a quote, a backslash or a control character. Most string content is base64.
    private mutating func skipPlain() {
        let (ones, highs): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        while bytes.count - position >= 8 {
            let word = UnsafeRawBufferPointer(bytes).loadUnaligned(fromByteOffset: position, as: UInt64.self)
            // A byte's high bit is set if the byte is less than the subtracted value. A borrow can set the bit of a byte only above a real
            // match.
            let (quotes, backslashes) = (word ^ 0x22 &* ones, word ^ 0x5C &* ones)
            let found = (word &- 0x20 &* ones) & ~word | (quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes
            guard found & highs == 0 else { return }
            position += 8
        }
    }

    private mutating func word(_ word: StaticString, _ kind: JSONIndex.Kind) throws(JSONSyntaxError) {
        let start = position
        for place in 0..<word.utf8CodeUnitCount {
            guard let byte = next else { throw JSONSyntaxError(.truncated, at: position) }
            guard byte == word.utf8Start[place] else { throw JSONSyntaxError(.invalidSyntax, at: position) }
            position += 1
        }
        add(kind, from: start, to: position)
    }

    private mutating func number() throws(JSONSyntaxError) {
        let start = position
        _ = skip("-")
        // Either a single zero, or digits that do not begin with zero.
        if !skip("0") { try digits() }
        if skip(".") { try digits() }
        if skip("e") || skip("E") {
            if !skip("+") { _ = skip("-") }
            try digits()
        }
        add(.number, from: start, to: position)
    }

    private mutating func digits() throws(JSONSyntaxError) {
        let start = position
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw JSONSyntaxError(next == nil ? .truncated : .invalidSyntax, at: position) }
    }
}

// Symbols.
extension JSONParser {
    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func skip(_ symbol: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: symbol) else { return false }
        position += 1
        return true
    }

    private mutating func symbol(_ symbol: Unicode.Scalar) throws(JSONSyntaxError) {
        guard !skip(symbol) else { return }
        throw JSONSyntaxError(next == nil ? .truncated : .invalidSyntax, at: position)
    }
}
