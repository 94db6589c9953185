// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where the values of one JSON text (RFC 8259) are: its syntax is checked once, in one pass, and nothing is copied until somebody asks for
/// it. Most of a frame is asked for never or once.
struct JSONIndex {
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
        guard node.hasEscapes else { return String(decoding: bytes[node.start..<node.end], as: UTF8.self) }
        var text = ""
        var position = node.start
        while position < node.end {
            let run = bytes[position..<node.end].prefix { $0 != UInt8(ascii: "\\") }
            text += String(decoding: run, as: UTF8.self)
            position = run.endIndex
            guard position < node.end, let (scalar, count) = Self.escaped(bytes[position..<node.end]) else { break }
            text.unicodeScalars.append(scalar)
            position += count
        }
        return text
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
        if node.hasEscapes { return self.text(node) == text }
        guard text.utf8.count == node.end - node.start else { return false }
        return bytes.withUnsafeBufferPointer { bytes in
            var text = text
            return text.withUTF8 { $0.elementsEqual(bytes[node.start..<node.end]) }
        }
    }

    /// What an escape stands for, and how long it is. Half a surrogate pair is none.
    fileprivate static func escaped(_ bytes: some RandomAccessCollection<UInt8>) -> (Unicode.Scalar, count: Int)? {
        func unit(at offset: Int) -> UInt32? {
            let digits = bytes.dropFirst(offset).prefix(6)
            guard digits.count == 6, digits.starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]) else { return nil }
            var unit: UInt32 = 0
            for digit in digits.dropFirst(2) {
                guard let value = Hexadecimal.value(ofDigit: digit) else { return nil }
                unit = unit << 4 | UInt32(value)
            }
            return unit
        }
        switch bytes.dropFirst().first {
        case UInt8(ascii: "\""): return ("\"", 2)
        case UInt8(ascii: "\\"): return ("\\", 2)
        case UInt8(ascii: "/"): return ("/", 2)
        case UInt8(ascii: "b"): return ("\u{08}", 2)
        case UInt8(ascii: "f"): return ("\u{0C}", 2)
        case UInt8(ascii: "n"): return ("\n", 2)
        case UInt8(ascii: "r"): return ("\r", 2)
        case UInt8(ascii: "t"): return ("\t", 2)
        case UInt8(ascii: "u"):
            guard let first = unit(at: 0) else { return nil }
            if let scalar = Unicode.Scalar(first) { return (scalar, 6) }
            guard first < 0xDC00, let second = unit(at: 6), (0xDC00..<0xE000).contains(second) else { return nil }
            return Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)).map { ($0, 12) }
        default: return nil
        }
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
        switch next {
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
                guard let escaped = JSONIndex.escaped(bytes[position...]) else { return false }
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
