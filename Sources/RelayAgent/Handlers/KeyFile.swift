// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The groups of a file of freedesktop.org, such as a desktop entry: lines `key=value` below `[group]`.
///
/// Lines that are none of these, keys that are not ASCII, and values that are not UTF-8 are left out, as other readers do. So keys can be
/// compared as texts. A value stays as it is written. Of a key that occurs twice, the last one counts.
struct KeyFile: Hashable, Sendable {
    private static let space: Set<UInt8> = [UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r")]

    private(set) var groups: [String: [String: String]] = [:]

    /// - Parameter names: The groups that are kept.
    init(_ bytes: [UInt8], groups names: Set<String>) {
        var group: String?
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let line = Self.trimmed(line)
            guard let first = line.first, first != UInt8(ascii: "#") else { continue }
            if first == UInt8(ascii: "[") {
                let name = line.last == UInt8(ascii: "]") ? Self.ascii(line.dropFirst().dropLast()) : nil
                group = name.flatMap { names.contains($0) ? $0 : nil }
                continue
            }
            guard let group, let equals = line.firstIndex(of: UInt8(ascii: "=")),
                let key = Self.ascii(Self.trimmed(line[..<equals])),
                let value = String(validating: Self.trimmed(line[line.index(after: equals)...]), as: UTF8.self)
            else { continue }
            groups[group, default: [:]][key] = value
        }
    }

    subscript(group: String, key: String) -> String? { groups[group]?[key] }

    /// The value of a key as a text; `nil` if it is missing or has a wrong escape sequence.
    func text(_ group: String, _ key: String) -> String? { self[group, key].flatMap { Self.list($0, isList: false)?.first } }

    /// The value of a key as a list; empty if it is missing or has a wrong escape sequence.
    func list(_ group: String, _ key: String) -> [String] { self[group, key].flatMap { Self.list($0, isList: true) } ?? [] }

    /// A missing value counts as false.
    func isTrue(_ group: String, _ key: String) -> Bool { self[group, key] == "true" }

    /// Replaces the escape sequences, and splits a list at semicolons.
    private static func list(_ value: String, isList: Bool) -> [String]? {
        var all: [String] = []
        var item: [UInt8] = []
        var bytes = value.utf8.makeIterator()
        while let byte = bytes.next() {
            if isList, byte == UInt8(ascii: ";") {
                all.append(String(decoding: item, as: UTF8.self))
                item = []
                continue
            }
            guard byte == UInt8(ascii: "\\") else {
                item.append(byte)
                continue
            }
            switch bytes.next() {
            case UInt8(ascii: "s"): item.append(UInt8(ascii: " "))
            case UInt8(ascii: "n"): item.append(UInt8(ascii: "\n"))
            case UInt8(ascii: "t"): item.append(UInt8(ascii: "\t"))
            case UInt8(ascii: "r"): item.append(UInt8(ascii: "\r"))
            case UInt8(ascii: "\\"): item.append(UInt8(ascii: "\\"))
            case UInt8(ascii: ";") where isList: item.append(UInt8(ascii: ";"))
            default: return nil
            }
        }
        // The last semicolon of a list may be missing.
        if !isList || !item.isEmpty { all.append(String(decoding: item, as: UTF8.self)) }
        return all
    }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let start = bytes.drop { space.contains($0) }
        guard let last = start.lastIndex(where: { !space.contains($0) }) else { return [] }
        return start[...last]
    }

    private static func ascii(_ bytes: ArraySlice<UInt8>) -> String? {
        bytes.allSatisfy { $0 < 0x80 } ? String(decoding: bytes, as: UTF8.self) : nil
    }
}
