// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Reads JSON (RFC 8259) straight into values. Foundation's decoder does not serve: it does not tell 1 from 1.0, and lets a later
/// key win silently over an equal one.
struct JSONParser {
    private let bytes: [UInt8]
    private var position = 0
    private var valueCount = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The one object that the text consists of.
    mutating func message() throws(ValueSetError) -> ValueSet {
        skipSpace()
        let start = position
        let value = try value(depth: 1)
        skipSpace()
        guard position == bytes.count else { throw ValueSetError(.trailingBytes, at: position) }
        guard case .valueSet(let set) = value else { throw ValueSetError(.notAValueSet, at: start) }
        return set
    }

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    // MARK: Values

    /// - Parameter depth: the level that a set or array at this place is on.
    private mutating func value(depth: Int) throws(ValueSetError) -> ValueSet.Value {
        let start = position
        valueCount += 1
        guard valueCount <= ValueSet.maximumValueCount else { throw ValueSetError(.tooManyValues, at: start) }
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return .bool(try word("true", true))
        case UInt8(ascii: "f"): return .bool(try word("false", false))
        case UInt8(ascii: "n"): throw ValueSetError(try word("null", .unsupportedType), at: start)
        case nil: throw ValueSetError(.truncated, at: start)
        default: return try number()
        }
    }

    /// An object: a set, or what a tag stands for.
    private mutating func object(depth: Int) throws(ValueSetError) -> ValueSet.Value {
        let start = position
        // The object of a tag is no level of its own, and holds no further one.
        guard depth <= ValueSet.maximumDepth + 1 else { throw ValueSetError(.tooDeep, at: start) }
        var pairs = try pairs(depth: depth)
        if pairs.count == 1, let (key, content) = pairs.first, JSONTag.isTag(key) {
            guard let tag = JSONTag(rawValue: key) else { throw ValueSetError(.unknownTag, at: start) }
            guard let value = tag.value(of: content) else { throw ValueSetError(.invalidTagContent, at: start) }
            return value
        }
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep, at: start) }
        for index in pairs.indices where JSONTag.needsEscape(pairs[index].key) {
            guard !JSONTag.isTag(pairs[index].key) else { throw ValueSetError(.unknownTag, at: start).inside(key: pairs[index].key) }
            pairs[index].key = String(Substring(pairs[index].key.utf8.dropFirst()))
        }
        return .valueSet(ValueSet(pairs))
    }

    /// The pairs of an object, their keys as they are written.
    private mutating func pairs(depth: Int) throws(ValueSetError) -> [ValueSet.Element] {
        position += 1
        skipSpace()
        var pairs: [ValueSet.Element] = []
        if skip("}") { return pairs }
        var keys: Set<[UInt8]> = []
        repeat {
            skipSpace()
            let start = position
            guard let next = peek else { throw ValueSetError(.truncated, at: start) }
            guard next == UInt8(ascii: "\"") else { throw ValueSetError(.nonStringKey, at: start) }
            let key = try string()
            guard keys.insert(Array(key.utf8)).inserted else { throw ValueSetError(.duplicateKey, at: start).inside(key: key) }
            skipSpace()
            try symbol(":")
            skipSpace()
            do throws(ValueSetError) {
                pairs.append((key, try value(depth: depth + 1)))
            } catch {
                throw error.inside(key: key)
            }
            skipSpace()
        } while skip(",")
        try symbol("}")
        return pairs
    }

    private mutating func array(depth: Int) throws(ValueSetError) -> ValueSet.Value {
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep, at: position) }
        position += 1
        skipSpace()
        var values: [ValueSet.Value] = []
        if skip("]") { return .array(values) }
        repeat {
            skipSpace()
            let start = position
            do throws(ValueSetError) {
                let value = try value(depth: depth + 1)
                if let first = values.first, first.kind != value.kind { throw ValueSetError(.mixedArray, at: start) }
                values.append(value)
            } catch {
                throw error.inside(index: values.count)
            }
            skipSpace()
        } while skip(",")
        try symbol("]")
        return .array(values)
    }
}

// MARK: - Scalars

extension JSONParser {
    /// An integer if it has neither fraction nor exponent, else a double.
    private mutating func number() throws(ValueSetError) -> ValueSet.Value {
        let start = position
        _ = skip("-")
        // One zero, or digits that do not begin with one.
        if !skip("0") { try digits() }
        var isInteger = true
        if skip(".") {
            isInteger = false
            try digits()
        }
        if skip("e") || skip("E") {
            isInteger = false
            if !skip("+") { _ = skip("-") }
            try digits()
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isInteger {
            if text == "-0" { return .double(-0.0) }
            if let value = Int64(text) { return .int(value) }
            if let value = UInt64(text) { return .uint(value) }
            throw ValueSetError(.integerOutOfRange, at: start)
        }
        guard let value = Double(text), value.isFinite else { throw ValueSetError(.numberOutOfRange, at: start) }
        return .double(value)
    }

    private mutating func digits() throws(ValueSetError) {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw ValueSetError(peek == nil ? .truncated : .invalidSyntax, at: position) }
    }

    private mutating func string() throws(ValueSetError) -> String {
        let start = position
        position += 1
        var content: [UInt8] = []
        var copied = position
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                content.append(contentsOf: bytes[copied..<position])
                position += 1
                guard let text = String(validating: content, as: UTF8.self) else { throw ValueSetError(.invalidText, at: start) }
                return text
            case UInt8(ascii: "\\"):
                content.append(contentsOf: bytes[copied..<position])
                position += 1
                content.append(contentsOf: Array(String(try escaped()).utf8))
                copied = position
            case 0..<0x20: throw ValueSetError(.invalidSyntax, at: position)
            default: position += 1
            }
        }
        throw ValueSetError(.truncated, at: position)
    }

    /// What stands behind a backslash.
    private mutating func escaped() throws(ValueSetError) -> Unicode.Scalar {
        guard let byte = peek else { throw ValueSetError(.truncated, at: position) }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{08}"
        case UInt8(ascii: "f"): return "\u{0C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let start = position - 2
            let unit = try codeUnit()
            if let scalar = Unicode.Scalar(unit) { return scalar }
            // The first half of a surrogate pair needs the second; the second may not stand alone.
            guard (0xD800..<0xDC00).contains(unit), skip("\\"), skip("u") else { throw ValueSetError(.invalidText, at: start) }
            let second = try codeUnit()
            guard (0xDC00..<0xE000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (UInt32(unit) - 0xD800) << 10 + (UInt32(second) - 0xDC00))
            else {
                throw ValueSetError(.invalidText, at: start)
            }
            return scalar
        default: throw ValueSetError(.invalidSyntax, at: position - 1)
        }
    }

    private mutating func codeUnit() throws(ValueSetError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = peek else { throw ValueSetError(.truncated, at: position) }
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { throw ValueSetError(.invalidSyntax, at: position) }
            unit = unit << 4 | UInt16(digit)
            position += 1
        }
        return unit
    }

    private mutating func word<Meaning>(_ word: StaticString, _ meaning: Meaning) throws(ValueSetError) -> Meaning {
        for expected in "\(word)".utf8 {
            guard let byte = peek else { throw ValueSetError(.truncated, at: position) }
            guard byte == expected else { throw ValueSetError(.invalidSyntax, at: position) }
            position += 1
        }
        return meaning
    }

    // MARK: Symbols

    private mutating func symbol(_ symbol: Unicode.Scalar) throws(ValueSetError) {
        guard !skip(symbol) else { return }
        throw ValueSetError(peek == nil ? .truncated : .invalidSyntax, at: position)
    }

    /// Passes over an ASCII symbol if it is next.
    private mutating func skip(_ symbol: Unicode.Scalar) -> Bool {
        guard let byte = peek, Unicode.Scalar(byte) == symbol else { return false }
        position += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }
}
