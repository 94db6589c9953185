// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where the values of one JSON text (RFC 8259) are: its syntax is checked once, in one pass, and nothing is copied until somebody asks for
/// it. Most of a frame is asked for never or once.
package struct JSONIndex {
    enum Kind: UInt8 {
        case string, number, yes, no, null, object, array
    }

    struct Node {
        var kind: Kind
        /// A string's text with its escapes; what is between the quotes.
        var hasEscapes = false
        /// Of its text: without the quotes for a string.
        var start: Int
        var end: Int
        /// The node behind it and all that is in it. In an object each value comes behind its key.
        var next: Int
    }

    struct Malformed: Error {}

    static let mostLevels = 512
    /// Of values, nested ones and the keys of objects counted. With the default limits no message has nearly as many, and each of
    /// them costs its reader more than its writer.
    package static let mostValues = 4_096

    /// UTF-8, which the caller has checked.
    let bytes: [UInt8]
    /// The whole text is the first.
    let nodes: [Node]

    init(_ bytes: [UInt8]) throws(Malformed) {
        let found = bytes.withUnsafeBufferPointer { bytes -> [Node]? in
            var reader = Reader(bytes: bytes)
            reader.skipSpace()
            guard reader.value(depth: 1) else { return nil }
            reader.skipSpace()
            return reader.position == bytes.count ? reader.nodes : nil
        }
        guard let found else { throw Malformed() }
        (self.bytes, nodes) = (bytes, found)
    }

    /// The text of a string.
    func text(_ node: Node) -> String {
        bytes.withUnsafeBufferPointer { bytes in
            let raw = bytes[node.start..<node.end]
            guard node.hasEscapes else { return String(decoding: raw, as: UTF8.self) }
            // No escape is shorter than what it stands for.
            return String(unsafeUninitializedCapacity: raw.count) { Self.unescape(bytes, raw.indices, into: $0) }
        }
    }

    private static func unescape(_ bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>, into text: UnsafeMutableBufferPointer<UInt8>)
        -> Int
    {
        var (position, count) = (range.lowerBound, 0)
        while position < range.upperBound {
            if bytes[position] == UInt8(ascii: "\\"), let escaped = escaped(bytes, at: position) {
                for byte in UTF8.encode(escaped.scalar) ?? UTF8.encodedReplacementCharacter {
                    text[count] = byte
                    count += 1
                }
                position += escaped.count
            } else {
                text[count] = bytes[position]
                count += 1
                position += 1
            }
        }
        return count
    }

    /// Which node is the value of a member of an object, if it is one.
    func member(_ key: String, of object: Int) -> Int? {
        guard nodes[object].kind == .object else { return nil }
        var place = object + 1
        while place < nodes[object].next {
            if isText(nodes[place], key) { return place + 1 }
            place = nodes[place + 1].next
        }
        return nil
    }

    /// Whether a string is this text.
    func isText(_ node: Node, _ text: String) -> Bool {
        // An escape has six bytes at most for one of the text's: a longer string is none, whatever it holds.
        let (count, expected) = (node.end - node.start, text.utf8.count)
        guard count == expected || node.hasEscapes && (expected...6 * expected).contains(count) else { return false }
        if node.hasEscapes { return self.text(node).utf8.elementsEqual(text.utf8) }
        return bytes.withUnsafeBufferPointer { bytes in
            var text = text
            return text.withUTF8 { $0.elementsEqual(bytes[node.start..<node.end]) }
        }
    }

    /// What an escape stands for, and how long it is. Half a surrogate pair is none.
    fileprivate static func escaped(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int) -> (scalar: Unicode.Scalar, count: Int)? {
        guard position + 1 < bytes.count else { return nil }
        switch bytes[position + 1] {
        case UInt8(ascii: "\""): return ("\"", 2)
        case UInt8(ascii: "\\"): return ("\\", 2)
        case UInt8(ascii: "/"): return ("/", 2)
        case UInt8(ascii: "b"): return ("\u{08}", 2)
        case UInt8(ascii: "f"): return ("\u{0C}", 2)
        case UInt8(ascii: "n"): return ("\n", 2)
        case UInt8(ascii: "r"): return ("\r", 2)
        case UInt8(ascii: "t"): return ("\t", 2)
        case UInt8(ascii: "u"):
            guard let first = codeUnit(bytes, at: position) else { return nil }
            if let scalar = Unicode.Scalar(first) { return (scalar, 6) }
            guard first < 0xDC00, let second = codeUnit(bytes, at: position + 6), (0xDC00..<0xE000).contains(second) else { return nil }
            return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)).map { ($0, 12) }
        default: return nil
        }
    }

    /// Of UTF-16, as `\u` and four digits.
    private static func codeUnit(_ bytes: UnsafeBufferPointer<UInt8>, at position: Int) -> UInt32? {
        guard bytes.count - position >= 6, bytes[position] == UInt8(ascii: "\\"), bytes[position + 1] == UInt8(ascii: "u") else {
            return nil
        }
        var unit: UInt32 = 0
        for place in position + 2..<position + 6 {
            guard let value = Hexadecimal.value(ofDigit: bytes[place]) else { return nil }
            unit = unit << 4 | UInt32(value)
        }
        return unit
    }
}

/// Each function says whether what it read is right.
private struct Reader {
    let bytes: UnsafeBufferPointer<UInt8>
    var position = 0
    var nodes: [JSONIndex.Node] = []

    init(bytes: UnsafeBufferPointer<UInt8>) {
        self.bytes = bytes
        nodes.reserveCapacity(16)
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func skip(_ byte: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: byte) else { return false }
        position += 1
        return true
    }

    mutating func value(depth: Int) -> Bool {
        guard nodes.count < JSONIndex.mostValues else { return false }
        return switch next {
        case UInt8(ascii: "{"): object(depth: depth)
        case UInt8(ascii: "["): array(depth: depth)
        case UInt8(ascii: "\""): string()
        case UInt8(ascii: "t"): word("true", .yes)
        case UInt8(ascii: "f"): word("false", .no)
        case UInt8(ascii: "n"): word("null", .null)
        default: number()
        }
    }

    private mutating func add(_ kind: JSONIndex.Kind, from start: Int, to end: Int, hasEscapes: Bool = false) {
        nodes.append(JSONIndex.Node(kind: kind, hasEscapes: hasEscapes, start: start, end: end, next: nodes.count + 1))
    }

    private mutating func object(depth: Int) -> Bool {
        container(.object, "}", depth: depth) { reader in
            guard reader.next == UInt8(ascii: "\""), reader.string() else { return false }
            reader.skipSpace()
            guard reader.skip(":") else { return false }
            reader.skipSpace()
            return reader.value(depth: depth + 1)
        }
    }

    private mutating func array(depth: Int) -> Bool {
        container(.array, "]", depth: depth) { $0.value(depth: depth + 1) }
    }

    private mutating func container(_ kind: JSONIndex.Kind, _ end: Unicode.Scalar, depth: Int, _ element: (inout Reader) -> Bool) -> Bool {
        guard depth <= JSONIndex.mostLevels else { return false }
        let (index, start) = (nodes.count, position)
        add(kind, from: start, to: start)
        position += 1
        skipSpace()
        if !skip(end) {
            repeat {
                skipSpace()
                guard element(&self) else { return false }
                skipSpace()
            } while skip(",")
            guard skip(end) else { return false }
        }
        nodes[index].end = position
        nodes[index].next = nodes.count
        return true
    }

    private mutating func string() -> Bool {
        position += 1
        let start = position
        var hasEscapes = false
        skipPlain()
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                add(.string, from: start, to: position, hasEscapes: hasEscapes)
                position += 1
                return true
            case UInt8(ascii: "\\"):
                guard let escaped = JSONIndex.escaped(bytes, at: position) else { return false }
                hasEscapes = true
                position += escaped.count
            case 0..<0x20: return false
            default:
                position += 1
                skipPlain()
            }
        }
        return false
    }

    /// Skips eight bytes at a time while none of them means anything in a string: most of what a string has is the text of bytes.
    private mutating func skipPlain() {
        let (ones, highs): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        while bytes.count - position >= 8 {
            let word = UnsafeRawBufferPointer(bytes).loadUnaligned(fromByteOffset: position, as: UInt64.self)
            // The high bit of a byte is set that is less than what is subtracted; a borrow may set another's too, behind one that is.
            let (quotes, backslashes) = (word ^ 0x22 &* ones, word ^ 0x5C &* ones)
            let found = (word &- 0x20 &* ones) & ~word | (quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes
            guard found & highs == 0 else { return }
            position += 8
        }
    }

    private mutating func word(_ word: StaticString, _ kind: JSONIndex.Kind) -> Bool {
        let start = position
        guard
            bytes[start...].prefix(word.utf8CodeUnitCount).elementsEqual(
                UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
            )
        else { return false }
        position += word.utf8CodeUnitCount
        add(kind, from: start, to: position)
        return true
    }

    private mutating func number() -> Bool {
        let start = position
        _ = skip("-")
        // One zero, or digits that do not begin with one.
        guard skip("0") || digits() else { return false }
        if skip("."), !digits() { return false }
        if skip("e") || skip("E") {
            if !skip("+") { _ = skip("-") }
            guard digits() else { return false }
        }
        add(.number, from: start, to: position)
        return true
    }

    private mutating func digits() -> Bool {
        let start = position
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        return position > start
    }
}
