// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a request for a file gets, by its conditions and its range (RFC 9110, sections 13 and 14).
enum FileCondition: Hashable {
    case whole
    /// These bytes of it, at least one.
    case part(Range<Int64>)
    /// The client has it.
    case notModified
    /// It is not the file that the client means.
    case changed
    /// The range is beyond the end.
    case unsatisfiable

    /// The fields of the head that it depends on.
    struct Fields {
        var ifMatch: String?
        var ifNoneMatch: String?
        var ifRange: String?
        var range: String?
    }

    /// - Parameters:
    ///   - tag: The file's etag, without its quotes.
    ///   - size: In bytes, not negative.
    init(_ fields: Fields, tag: String, size: Int64) {
        if let match = fields.ifMatch, !Self.names(match, tag, weak: false) {
            self = .changed
        } else if let match = fields.ifNoneMatch, Self.names(match, tag, weak: true) {
            self = .notModified
        } else if let range = fields.range, fields.ifRange.map({ $0 == "\"\(tag)\"" }) ?? true {
            self = Self.part(range, of: size)
        } else {
            self = .whole
        }
    }

    /// Whether a list of etags has one.
    private static func names(_ list: String, _ tag: String, weak: Bool) -> Bool {
        list.split(separator: ",").contains { item in
            let item = item.trimming { $0 == " " || $0 == "\t" }
            return item == "*" || item == "\"\(tag)\"" || weak && item == "W/\"\(tag)\""
        }
    }

    /// One range. Several ones, and what is no range, are ignored, as the standard permits.
    private static func part(_ text: String, of size: Int64) -> FileCondition {
        guard text.lowercased().hasPrefix("bytes=") else { return .whole }
        let parts = text.dropFirst(6).trimming { $0 == " " }.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let first = number(parts[0]), let last = number(parts[1]) else { return .whole }
        switch (first, last) {
        case (nil, nil): return .whole
        case (nil, let count?):
            guard count > 0, size > 0 else { return .unsatisfiable }
            return .part(max(0, size - count)..<size)
        case (let first?, nil): return first < size ? .part(first..<size) : .unsatisfiable
        case (let first?, let last?):
            guard first <= last else { return .whole }
            return first < size ? .part(first..<min(last, size - 1) + 1) : .unsatisfiable
        }
    }

    /// - Returns: `nil` for what is no number; an inner `nil` for no text.
    private static func number(_ text: Substring) -> Int64?? {
        guard !text.isEmpty else { return .some(nil) }
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // A larger number than any size is beyond the end.
        return .some(Int64(text) ?? .max)
    }
}

extension StringProtocol {
    fileprivate func trimming(_ isSpace: (Character) -> Bool) -> String {
        var rest = self[...]
        while let first = rest.first, isSpace(first) { rest = rest.dropFirst() }
        while let last = rest.last, isSpace(last) { rest = rest.dropLast() }
        return String(rest)
    }
}
