// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One value in a JSON text, for reading.
package struct JSONValue: Sendable {
    let index: JSONIndex
    /// The index of its node.
    let place: Int
    /// The limits for its fields.
    let limits: Limits

    init(_ index: JSONIndex, place: Int = 0, limits: Limits = Limits()) {
        self.index = index
        self.place = place
        self.limits = limits
    }

    /// Reads a text.
    package init(parsing bytes: [UInt8]) throws(JSONError) {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw .malformed("not valid UTF-8") }
        do throws(JSONSyntaxError) {
            self.init(try JSONIndex(bytes))
        } catch {
            throw .malformed(JSONError.notJSON)
        }
    }

    private var node: JSONIndex.Node { index.nodes[place] }
    private func value(at place: Int) -> JSONValue { JSONValue(index, place: place, limits: limits) }

    private var isNull: Bool { node.kind == .null }
    private var isObject: Bool { node.kind == .object }
}

extension JSONValue: JSONReadable {
    package init(json: JSONValue) { self = json }
}

// Members and elements.
extension JSONValue {
    /// A required member.
    package func member<Value: JSONReadable>(_ key: String) throws(JSONError) -> Value {
        try expect(.object)
        guard let member = index.member(key, of: place) else { throw .malformed("\(JSONError.name(path + [key])) is missing") }
        return try Value(json: value(at: member))
    }

    /// A member that may be missing or null.
    package func optional<Value: JSONReadable>(_ key: String) throws(JSONError) -> Value? {
        try expect(.object)
        guard let member = index.member(key, of: place).map(value), !member.isNull else { return nil }
        return try Value(json: member)
    }

    /// A member, if it is present.
    package subscript(key: String) -> JSONValue? { index.member(key, of: place).map(value) }

    /// An object's members, in the order of the text.
    package func object() throws(JSONError) -> [(key: String, value: JSONValue)] {
        try expect(.object)
        return contents(from: 1).map { (index.text(index.nodes[$0 - 1]), value(at: $0)) }
    }

    /// An array's elements.
    func array() throws(JSONError) -> [JSONValue] {
        try expect(.array)
        return contents(from: 0).map(value)
    }

    /// - Parameter offset: The number of nodes before each value: 1 in an object, for the key, and 0 in an array.
    private func contents(from offset: Int) -> [Int] {
        var places: [Int] = []
        var next = place + 1
        while next < node.next {
            places.append(next + offset)
            next = index.nodes[next + offset].next
        }
        return places
    }
}

// Scalars.
extension JSONValue {
    /// A string without control characters.
    func text() throws(JSONError) -> String {
        try expect(.string)
        let text = index.text(node)
        guard !text.hasControlCharacters else { throw invalid }
        return text
    }

    /// Calls `body` with a string's bytes, without a copy if the string has no escapes.
    func withText<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) throws(JSONError) -> Result {
        try expect(.string)
        guard !node.hasEscapes else {
            var text = index.text(node)
            return text.withUTF8(body)
        }
        return index.bytes.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[node.start..<node.end])) }
    }

    func bool() throws(JSONError) -> Bool {
        if node.kind == .no { return false }
        try expect(.yes)
        return true
    }

    /// A number with a fraction or exponent is accepted if its value is whole.
    func integer() throws(JSONError) -> Int64 {
        try expect(.number)
        let text = index.text(node)
        if let number = Int64(text) { return number }
        // Only values that a double represents exactly.
        guard let double = Double(text), double.magnitude < 0x1p53, let number = Int64(exactly: double) else { throw invalid }
        return number
    }

    /// The value as it was written.
    package var source: [UInt8] { Array(index.bytes[node.start..<node.end]) }

    func double() throws(JSONError) -> Double {
        try expect(.number)
        guard let number = Double(index.text(node)), number.isFinite else { throw invalid }
        return number
    }

    private func expect(_ kind: JSONIndex.Kind) throws(JSONError) {
        guard node.kind != kind else { return }
        throw .malformed("\(JSONError.name(path)) \(isNull ? "is null" : "has the wrong type")")
    }
}

// Errors.
extension JSONValue {
    /// The error for a value of the right type that is not valid here.
    package var invalid: JSONError { .malformed("\(JSONError.name(path)) has no valid value") }

    /// The error for a member that is not valid.
    func invalid(_ key: String) -> JSONError { .malformed("\(JSONError.name(path + [key])) has no valid value") }

    /// The path to the value. It is computed only on demand, because errors are rare.
    private var path: [String] {
        var path: [String] = []
        var outer = JSONValue(index)
        while outer.place < place {
            let isObject = outer.isObject
            let places = outer.contents(from: isObject ? 1 : 0)
            // The last value that begins at or before this one.
            guard let count = places.lastIndex(where: { $0 <= place }) else { break }
            path.append(isObject ? index.text(index.nodes[places[count] - 1]) : String(count))
            outer = JSONValue(index, place: places[count])
        }
        return path
    }
}

/// Why JSON does not have the expected form.
package enum JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A field is missing or wrong. The text names fields, never their values.
    case malformed(String)
    /// A field exceeds a limit.
    case tooLarge(LimitExceeded)

    package var description: String {
        switch self {
        case .malformed(let text): text
        case .tooLarge(let exceeded): exceeded.description
        }
    }

    static let notJSON = "not JSON, nested too deep, or of too many values"

    /// Only names that can be field names of this protocol are shown; others become "…".
    fileprivate static func name(_ path: [String]) -> String {
        let names = path.suffix(4).map { $0.utf8.count <= 24 && $0.utf8.allSatisfy(isASCIIAlphanumeric) ? $0 : "…" }
        return names.isEmpty ? "the message" : names.joined(separator: ".")
    }
}
