// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A domain name (RFC 1035 §3.1). Names that differ only in the case of ASCII letters are equal (RFC 6762 §16).
package struct DNSName: Hashable, Comparable, Sendable, CustomStringConvertible {
    package static let maximumBytes = 255
    package static let maximumLabelBytes = 63

    /// Each has 1 to 63 bytes; none is the root.
    package let labels: [[UInt8]]
    /// The encoded name in lower case.
    private let key: [UInt8]

    package static let root = DNSName()

    private init() { (labels, key) = ([], []) }

    /// - Returns: `nil` if a label or the name is too long, or a label is empty.
    package init?(_ labels: [[UInt8]]) {
        guard labels.allSatisfy({ (1...Self.maximumLabelBytes).contains($0.count) }) else { return nil }
        var key: [UInt8] = []
        for label in labels {
            key.append(UInt8(label.count))
            key += label.map { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) ? $0 | 0x20 : $0 }
        }
        guard key.count < Self.maximumBytes else { return nil }
        self.labels = labels
        self.key = key
    }

    /// Reads labels that are separated by dots, without escapes.
    package init?(_ text: String) {
        self.init(text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Array.init))
    }

    /// The name below this one, whose first label is given. `nil` if it would be too long.
    package func child(_ label: [UInt8]) -> DNSName? { DNSName([label] + labels) }

    /// The name without its first label; `nil` for the root.
    package var parent: DNSName? { labels.isEmpty ? nil : DNSName(Array(labels.dropFirst())) }

    /// The size of the encoded name, in bytes.
    package var encodedCount: Int { key.count + 1 }

    /// The order of their encodings.
    package static func < (one: DNSName, other: DNSName) -> Bool { one.key.lexicographicallyPrecedes(other.key) }
    package static func == (one: DNSName, other: DNSName) -> Bool { one.key == other.key }
    package func hash(into hasher: inout Hasher) { hasher.combine(key) }

    /// For logs: bytes other than letters, digits, `-` and `_` are escaped (RFC 1035 §5.1).
    package var description: String {
        labels.map { label in
            label.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"), UInt8(ascii: "_"):
                    String(UnicodeScalar(byte))
                default: "\\" + String(repeating: "0", count: byte < 10 ? 2 : byte < 100 ? 1 : 0) + "\(byte)"
                }
            }.joined() + "."
        }.joined()
    }
}
