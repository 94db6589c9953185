// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension ValueSet {
    /// Reads a message from JSON text in UTF-8.
    /// - Throws: The error with its key path and byte position.
    public init(json: some Sequence<UInt8>) throws(ValueSetError) {
        let index: JSONIndex
        do throws(JSONSyntaxError) {
            // Half of an object's nodes are keys. A tag's object is not a level of its own, but may be one level deeper than the deepest
            // set.
            let bounds = JSONIndex.Bounds(values: 2 * Self.maximumValueCount, levels: Self.maximumDepth + 1)
            index = try JSONIndex(Array(json), bounds: bounds)
        } catch {
            throw ValueSetError(error)
        }
        var reader = ValueSetJSONReader(index: index)
        guard case .valueSet(let set) = try reader.value(at: 0, depth: 1) else {
            throw ValueSetError(.notAValueSet, at: index.nodes[0].offset)
        }
        self = set
    }

    /// Reads a message from JSON text.
    /// - Throws: The error with its key path and byte position.
    public init(json: String) throws(ValueSetError) {
        try self.init(json: json.utf8)
    }
}

extension JSONIndex.Node {
    /// The start of the value: for a string, its quote.
    fileprivate var offset: Int { kind == .string ? start - 1 : start }
}

/// Converts the nodes of an index to values. Unlike other readers it rejects repeated keys.
private struct ValueSetJSONReader {
    let index: JSONIndex
    private var valueCount = 0

    init(index: JSONIndex) { self.index = index }

    /// - Parameter depth: The nesting level of a set or array at this place.
    mutating func value(at place: Int, depth: Int) throws(ValueSetError) -> ValueSet.Value {
        let node = index.nodes[place]
        valueCount += 1
        guard valueCount <= ValueSet.maximumValueCount else { throw ValueSetError(.tooManyValues, at: node.offset) }
        switch node.kind {
        case .object: return try object(at: place, depth: depth)
        case .array: return try array(at: place, depth: depth)
        case .string: return .string(try text(node))
        case .yes: return .bool(true)
        case .no: return .bool(false)
        case .null: throw ValueSetError(.unsupportedType, at: node.start)
        case .number: return try number(node)
        }
    }

    /// An object: a set, or a tagged value.
    private mutating func object(at place: Int, depth: Int) throws(ValueSetError) -> ValueSet.Value {
        let start = index.nodes[place].start
        var pairs = try pairs(at: place, depth: depth)
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

    /// The pairs of an object, with unmodified keys.
    private mutating func pairs(at object: Int, depth: Int) throws(ValueSetError) -> [ValueSet.Element] {
        var pairs: [ValueSet.Element] = []
        var keys: Set<[UInt8]> = []
        var place = object + 1
        while place < index.nodes[object].next {
            let key = try text(index.nodes[place])
            guard keys.insert(Array(key.utf8)).inserted else {
                throw ValueSetError(.duplicateKey, at: index.nodes[place].offset).inside(key: key)
            }
            do throws(ValueSetError) {
                pairs.append((key, try value(at: place + 1, depth: depth + 1)))
            } catch {
                throw error.inside(key: key)
            }
            place = index.nodes[place + 1].next
        }
        return pairs
    }

    private mutating func array(at array: Int, depth: Int) throws(ValueSetError) -> ValueSet.Value {
        guard depth <= ValueSet.maximumDepth else { throw ValueSetError(.tooDeep, at: index.nodes[array].start) }
        var values: [ValueSet.Value] = []
        var place = array + 1
        while place < index.nodes[array].next {
            do throws(ValueSetError) {
                let value = try value(at: place, depth: depth + 1)
                if let first = values.first, first.kind != value.kind { throw ValueSetError(.mixedArray, at: index.nodes[place].offset) }
                values.append(value)
            } catch {
                throw error.inside(index: values.count)
            }
            place = index.nodes[place].next
        }
        return .array(values)
    }

    private func text(_ node: JSONIndex.Node) throws(ValueSetError) -> String {
        // Escapes are ASCII, so they do not change whether the text is valid UTF-8.
        guard let text = String(validating: index.bytes[node.start..<node.end], as: UTF8.self) else {
            throw ValueSetError(.invalidText, at: node.offset)
        }
        return node.hasEscapes ? index.text(node) : text
    }

    /// An integer if it has no fraction or exponent, else a double.
    private func number(_ node: JSONIndex.Node) throws(ValueSetError) -> ValueSet.Value {
        let text = index.text(node)
        guard text.utf8.contains(where: ".eE".utf8.contains) else {
            if text == "-0" { return .double(-0.0) }
            if let value = Int64(text) { return .int(value) }
            if let value = UInt64(text) { return .uint(value) }
            throw ValueSetError(.integerOutOfRange, at: node.start)
        }
        guard let value = Double(text), value.isFinite else { throw ValueSetError(.numberOutOfRange, at: node.start) }
        return .double(value)
    }
}

extension ValueSetError {
    fileprivate init(_ error: JSONSyntaxError) {
        let code: Code =
            switch error.problem {
            case .truncated: .truncated
            case .trailingBytes: .trailingBytes
            case .notAKey: .nonStringKey
            case .invalidSyntax: .invalidSyntax
            case .invalidText: .invalidText
            case .tooDeep: .tooDeep
            case .tooManyValues: .tooManyValues
            }
        self = error.path.reduce(ValueSetError(code, at: error.offset)) { inner, step in
            switch step {
            case .key(let key): inner.inside(key: key)
            case .index(let index): inner.inside(index: index)
            }
        }
    }
}
