// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where the values of one JSON text (RFC 8259) are. Its syntax is checked once, in one pass; nothing is copied until somebody asks for it.
/// Numbers are kept as they are written, so 1 and 1.0 stay apart.
package final class JSONIndex: Sendable {
    enum Kind: UInt8 {
        case string, number, yes, no, null, object, array
    }

    struct Node {
        var kind: Kind
        /// Of a string's text.
        var hasEscapes = false
        /// Of its text: without the quotes for a string.
        var start: Int
        var end: Int
        /// The node behind it and all that is in it. In an object each value comes behind its key.
        var next: Int
    }

    /// How large a text may be. Each value costs its reader more than its writer.
    struct Bounds {
        /// Nested ones and the keys of objects counted.
        var values: Int
        var levels: Int
    }

    /// With the default limits no control message has nearly as many values.
    package static let maximumValues = 4_096
    static let maximumLevels = 512

    let bytes: [UInt8]
    /// The whole text is the first.
    let nodes: [Node]

    /// - Parameter bytes: Outside of strings only JSON's own characters are taken; that strings are UTF-8 is for the caller to check.
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

    /// The text of a string; what is not UTF-8 in it is replaced.
    func text(_ node: Node) -> String {
        bytes.withUnsafeBufferPointer { bytes in
            let raw = bytes[node.start..<node.end]
            guard node.hasEscapes else { return String(decoding: raw, as: UTF8.self) }
            // No escape is shorter than what it stands for.
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

    /// Which node is the value of a member of an object, if it is one. Of equal keys the first counts.
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
        // An escape has six bytes at most for one of the text's: a longer string is another one, whatever it holds.
        let (count, expected) = (node.end - node.start, text.utf8.count)
        guard count == expected || node.hasEscapes && (expected...6 * expected).contains(count) else { return false }
        if node.hasEscapes { return self.text(node).utf8.elementsEqual(text.utf8) }
        return bytes.withUnsafeBufferPointer { bytes in
            var text = text
            return text.withUTF8 { $0.elementsEqual(bytes[node.start..<node.end]) }
        }
    }
}

/// Why a text is not JSON, or larger than its reader takes.
struct JSONSyntaxError: Error, Hashable, Sendable {
    enum Problem: Hashable, Sendable {
        case truncated, trailingBytes, notAKey, invalidSyntax, invalidText, tooDeep, tooManyValues
    }

    enum Step: Hashable, Sendable {
        case key(String)
        case index(Int)
    }

    let problem: Problem
    /// The byte at which it was met.
    let offset: Int
    /// The value it was met in, from the inside outwards.
    private(set) var path: [Step] = []

    init(_ problem: Problem, at offset: Int) { (self.problem, self.offset) = (problem, offset) }

    func inside(_ step: Step) -> JSONSyntaxError {
        var error = self
        error.path.append(step)
        return error
    }
}
