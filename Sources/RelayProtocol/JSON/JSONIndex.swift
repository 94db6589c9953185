// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The positions of the values in one JSON text (RFC 8259). The syntax is checked once, in one pass. Nothing is copied until a caller reads
/// a value. Numbers keep their text, so 1 and 1.0 stay different.
package final class JSONIndex: Sendable {
    enum Kind: UInt8 {
        case string, number, yes, no, null, object, array
    }

    struct Node {
        var kind: Kind
        /// Whether the text of a string contains escapes.
        var hasEscapes = false
        /// The start of the value's text. For a string, start and end exclude the quotes.
        var start: Int
        var end: Int
        /// The index of the next node after this one and its content. In an object, each value follows its key.
        var next: Int
    }

    /// The maximum size of a text. The bounds are needed because a value costs its reader more than its writer.
    struct Bounds {
        /// Nested values and the keys of objects count too.
        var values: Int
        var levels: Int
    }

    /// With the default limits, no control message has nearly as many values.
    package static let maximumValues = 4_096
    static let maximumLevels = 512

    let bytes: [UInt8]
    /// The first node is the whole text.
    let nodes: [Node]

    /// - Parameter bytes: The text. Outside strings only JSON's own characters are accepted. The caller checks that strings are valid
    ///   UTF-8.
    init(_ bytes: [UInt8], bounds: Bounds = Bounds(values: maximumValues, levels: maximumLevels)) throws(JSONSyntaxError) {
        self.bytes = bytes
        let result = bytes.withUnsafeBufferPointer { bytes -> Result<[Node], JSONSyntaxError> in
            var parser = JSONParser(bytes: bytes, bounds: bounds)
            do throws(JSONSyntaxError) {
                try parser.text()
                return .success(parser.nodes)
            } catch {
                return .failure(error)
            }
        }
        self.nodes = try result.get()
    }

    /// The text of a string. Bytes that are not valid UTF-8 are replaced.
    func text(_ node: Node) -> String {
        bytes.withUnsafeBufferPointer { bytes in
            let raw = bytes[node.start..<node.end]
            guard node.hasEscapes else { return String(decoding: raw, as: UTF8.self) }
            // An escape is never shorter than the bytes it stands for.
            return String(unsafeUninitializedCapacity: raw.count) { text in
                var count = 0
                JSONEscape.unescape(bytes, raw.indices) { byte in
                    text[count] = byte
                    count += 1
                }
                return count
            }
        }
    }

    /// The node of a member's value; `nil` if the node is not an object, or has no such member. If a key is repeated, the first one counts.
    func member(_ key: String, of object: Int) -> Int? {
        guard nodes[object].kind == .object else { return nil }
        var place = object + 1
        while place < nodes[object].next {
            if isText(nodes[place], key) { return place + 1 }
            place = nodes[place + 1].next
        }
        return nil
    }

    /// Whether a string equals this text.
    func isText(_ node: Node, _ text: String) -> Bool {
        // An escape has at most six bytes for one byte of the text, so a longer string cannot be equal.
        let (count, expected) = (node.end - node.start, text.utf8.count)
        guard count == expected || node.hasEscapes && (expected...6 * expected).contains(count) else { return false }
        if node.hasEscapes { return self.text(node).utf8.elementsEqual(text.utf8) }
        return bytes.withUnsafeBufferPointer { bytes in
            var text = text
            return text.withUTF8 { $0.elementsEqual(bytes[node.start..<node.end]) }
        }
    }
}

/// Why a text is not valid JSON, or exceeds the reader's bounds.
struct JSONSyntaxError: Error, Hashable, Sendable {
    enum Problem: Hashable, Sendable {
        case truncated, trailingBytes, notAKey, invalidSyntax, invalidText, tooDeep, tooManyValues
    }

    enum Step: Hashable, Sendable {
        case key(String)
        case index(Int)
    }

    let problem: Problem
    /// The byte position of the error.
    let offset: Int
    /// The path of the value that contains the error, from the inside outwards.
    private(set) var path: [Step] = []

    init(_ problem: Problem, at offset: Int) { (self.problem, self.offset) = (problem, offset) }

    func inside(_ step: Step) -> JSONSyntaxError {
        var error = self
        error.path.append(step)
        return error
    }
}
