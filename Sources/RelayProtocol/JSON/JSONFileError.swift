// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a JSON text that a person wrote cannot be read, with the place.
package struct JSONFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    init(_ error: JSONSyntaxError, in bytes: [UInt8]) {
        let before = bytes.prefix(error.offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count + 1
        description = "line \(line), column \(column): \(error.problem.text)"
    }

    init(invalidTextIn bytes: [UInt8]) {
        // The longest beginning of whole lines that is UTF-8.
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        let line = lines.firstIndex { String(validating: $0, as: UTF8.self) == nil } ?? 0
        description = "line \(line + 1): this is not UTF-8"
    }
}

extension JSONValue {
    /// Reads a text that a person wrote.
    package init(file bytes: [UInt8]) throws(JSONFileError) {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw JSONFileError(invalidTextIn: bytes) }
        do throws(JSONSyntaxError) {
            self.init(try JSONIndex(bytes))
        } catch {
            throw JSONFileError(error, in: bytes)
        }
    }
}

extension JSONSyntaxError.Problem {
    fileprivate var text: String {
        switch self {
        case .truncated: "the JSON text ends too early; a bracket or a quotation mark is not closed"
        case .trailingBytes: "the JSON text has ended before this"
        case .notAKey: "a name in quotation marks is expected; the last entry has no comma behind it"
        case .invalidSyntax: "this is not JSON; a comma, a colon, a bracket, a quotation mark or a value is expected"
        case .invalidText: "this escape in a text is not valid"
        case .tooDeep: "too many brackets are nested"
        case .tooManyValues: "there are too many values"
        }
    }
}
