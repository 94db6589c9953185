// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The name of one file or folder; never a path. It is checked by bytes, as the system reads it: in Swift a separator with a combining
/// mark is a different Character, and texts with different bytes may be equal.
struct EntryName: Sendable, CustomStringConvertible {
    static let maximumBytes = 255

    let text: String

    /// Why a name of this machine cannot be sent; `nil` if it can.
    static func omission(_ name: [UInt8]) -> FileServiceMessages.Omission.Reason? {
        guard let text = String(validating: name, as: UTF8.self) else { return .notUTF8 }
        if EntryName(text) != nil { return nil }
        if name.contains(UInt8(ascii: "\\")) { return .backslash }
        return DisplayText.isPlain(text) ? .unfinished : .controlCharacter
    }

    /// A name for people: bytes that are not UTF-8, and characters that control a line, a terminal or the writing direction, are escaped.
    static func shown(_ name: [UInt8]) -> String {
        guard let text = String(validating: name, as: UTF8.self) else {
            return name.map {
                (0x20...0x7E).contains($0) ? String(UnicodeScalar($0)) : "\\x" + String(0x100 + Int($0), radix: 16).dropFirst()
            }
            .joined()
        }
        return text.unicodeScalars.map { scalar in
            DisplayText.isPlain(String(scalar)) ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
        }.joined()
    }

    /// A name from another device. Rejects backslashes, which are separators on other systems; characters that control the terminal or
    /// the writing direction, which could disguise the name; and the names of unfinished transfers, which belong to this program.
    init?(_ text: String) {
        self.init(local: text)
        guard !text.utf8.contains(UInt8(ascii: "\\")), DisplayText.isPlain(text), !isOfTransfer else { return nil }
    }

    /// A name that the local user chose: any name that the system accepts.
    init?(local text: String) {
        let bytes = text.utf8
        guard (1...Self.maximumBytes).contains(bytes.count), !bytes.contains(0), !bytes.contains(UInt8(ascii: "/")),
            !bytes.elementsEqual(".".utf8), !bytes.elementsEqual("..".utf8)
        else { return nil }
        self.text = text
    }

    private init(of name: EntryName, ending: String) { text = "." + name.shortened + ending }

    var description: String { text }

    // MARK: Unfinished transfers

    private static let partEnding = ".relay-part"
    private static let markEnding = ".relay-mark"

    /// The name of the file while it is incomplete.
    var part: EntryName { EntryName(of: self, ending: Self.partEnding) }
    /// The name of the file that identifies the source of the part.
    var mark: EntryName { EntryName(of: self, ending: Self.markEnding) }

    /// Ignores case, because some file systems do.
    private var isOfTransfer: Bool {
        let bytes = text.utf8.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
        return bytes.first == UInt8(ascii: ".")
            && [Self.partEnding, Self.markEnding].contains { bytes.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }

    /// Shortens the text, so that the name with its affixes stays valid. A hash keeps long names distinct.
    private var shortened: String {
        let room = 200
        guard text.utf8.count > room else { return text }
        var beginning = String.UnicodeScalarView()
        var count = 0
        for scalar in text.unicodeScalars {
            count += UTF8.width(scalar)
            guard count <= room else { break }
            beginning.append(scalar)
        }
        return String(beginning) + "-" + Digest256(hashing: Array(text.utf8)).description.prefix(16)
    }
}

extension EntryName: Hashable, Comparable {
    static func == (one: EntryName, other: EntryName) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    /// Ordered by bytes, which is the same on every machine.
    static func < (one: EntryName, other: EntryName) -> Bool { one.text.utf8.lexicographicallyPrecedes(other.text.utf8) }

    func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}
