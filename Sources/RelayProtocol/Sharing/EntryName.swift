// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The name of one file or folder; never a path. It is checked by bytes, as the system reads it: in Swift a separator with a combining
/// mark is a different Character, and texts with different bytes may be equal.
package struct EntryName: Sendable, CustomStringConvertible {
    package static let maximumBytes = 255

    package let text: String

    /// Why a name of this machine cannot be sent.
    package enum Defect: String, CaseIterable, Sendable {
        /// The name is not UTF-8.
        case notUTF8
        /// The name has a backslash, which separates names on other systems.
        case backslash
        /// The name has a character that controls a line, a terminal or the writing direction.
        case controlCharacter
        /// An unfinished transfer of this program.
        case unfinished
    }

    /// Why a name of this machine cannot be sent; `nil` if it can.
    package static func defect(_ name: [UInt8]) -> Defect? {
        guard let text = String(validating: name, as: UTF8.self) else { return .notUTF8 }
        if EntryName(text) != nil { return nil }
        if name.contains(UInt8(ascii: "\\")) { return .backslash }
        return DisplayText.isPlain(text) ? .unfinished : .controlCharacter
    }

    /// A name for people: bytes that are not UTF-8, and characters that control a line, a terminal or the writing direction, are escaped.
    package static func shown(_ name: [UInt8]) -> String {
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
    package init?(_ text: String) {
        self.init(local: text)
        guard !text.utf8.contains(UInt8(ascii: "\\")), DisplayText.isPlain(text), !isOfTransfer else { return nil }
    }

    /// A name that the local user chose: any name that the system accepts.
    package init?(local text: String) {
        let bytes = text.utf8
        guard (1...Self.maximumBytes).contains(bytes.count), !bytes.contains(0), !bytes.contains(UInt8(ascii: "/")),
            !bytes.elementsEqual(".".utf8), !bytes.elementsEqual("..".utf8)
        else { return nil }
        self.text = text
    }

    private init(unchecked text: String) { self.text = text }

    package var description: String { text }

    /// Whether it is in Unicode's composed form (NFC), in which all devices write names that only look alike in the same way.
    package var isComposed: Bool { composed == self }

    /// The name in composed form.
    package var composed: EntryName {
        // Nearly all names.
        guard text.utf8.contains(where: { $0 >= 0x80 }) else { return self }
        return EntryName(local: text.precomposedStringWithCanonicalMapping) ?? self
    }

    /// The name with a number, for a second file of the same name: `photo (2).jpg`.
    package func numbered(_ number: Int) -> EntryName? {
        let bytes = Array(text.utf8)
        // A name that begins with its only point has no ending.
        let point = bytes.lastIndex(of: UInt8(ascii: ".")).flatMap { $0 == 0 ? nil : $0 } ?? bytes.endIndex
        let (stem, ending) = (String(decoding: bytes[..<point], as: UTF8.self), String(decoding: bytes[point...], as: UTF8.self))
        return EntryName("\(stem) (\(number))\(ending)")
    }

    // MARK: Unfinished transfers

    private static let partEnding = ".relay-part"

    /// The name of a folder for something while it arrives.
    /// - Parameters:
    ///   - name: What arrives; `nil` for files of several names.
    ///   - label: Names where it comes from; at most 40 bytes.
    package static func part(of name: EntryName?, from label: String) -> EntryName {
        EntryName(unchecked: "." + (name.map { $0.shortened + "-" } ?? "") + label + partEnding)
    }

    /// Whether it is the name of an incomplete file or folder.
    package var isPart: Bool {
        text.utf8.first == UInt8(ascii: ".") && text.utf8.suffix(Self.partEnding.utf8.count).elementsEqual(Self.partEnding.utf8)
    }

    /// Ignores case, because some file systems do.
    private var isOfTransfer: Bool {
        let bytes = text.utf8.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
        return bytes.first == UInt8(ascii: ".") && bytes.suffix(Self.partEnding.utf8.count).elementsEqual(Self.partEnding.utf8)
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
    package static func == (one: EntryName, other: EntryName) -> Bool { one.text.utf8.elementsEqual(other.text.utf8) }

    /// Ordered by bytes, which is the same on every machine.
    package static func < (one: EntryName, other: EntryName) -> Bool { one.text.utf8.lexicographicallyPrecedes(other.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}
