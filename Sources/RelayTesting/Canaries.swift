// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Secrets of a test, to be searched for where they must not be, in clear and in usual encodings. For tests only.
package struct Canaries {
    /// A secret that was found.
    package struct Sighting: Hashable, CustomStringConvertible, Sendable {
        package var secret: String
        package var encoding: String
        package var place: String

        package var description: String { "\(secret) (\(encoding)) in \(place)" }
    }

    private var patterns: [(secret: String, encoding: String, bytes: Data)] = []

    package init() {}

    /// Adds a secret. Of a long one, a piece is enough to be found.
    /// - Parameter name: What the sightings call it.
    package mutating func add(_ name: String, _ secret: String) {
        let bytes = Array(secret.utf8)
        precondition(bytes.count >= 8, "a shorter text is found by chance")
        // The end of a signed token is its signature.
        let piece = Array(bytes.suffix(32))
        add(name, "clear", piece)
        for (encoding, text) in Self.encodings(of: piece) { add(name, encoding, Array(text.utf8)) }
        guard let decoded = Self.decoded(secret) else { return }
        let end = Array(decoded.suffix(24))
        add(name, "decoded", end)
        for (encoding, text) in Self.encodings(of: end) { add(name, "decoded, then " + encoding, Array(text.utf8)) }
    }

    private mutating func add(_ name: String, _ encoding: String, _ bytes: [UInt8]) {
        patterns.append((name, encoding, Data(bytes)))
    }

    /// What a secret becomes inside a longer text that was encoded.
    static func encodings(of bytes: [UInt8]) -> [(String, String)] {
        let hexadecimal = bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        var encodings = [
            ("hexadecimal", hexadecimal.joined()), ("hexadecimal in capitals", hexadecimal.joined().uppercased()),
            ("percent-encoded", hexadecimal.map { "%" + $0.uppercased() }.joined()),
            ("percent-encoded in small letters", hexadecimal.map { "%" + $0 }.joined()),
        ]
        for shift in 0..<3 {
            // Whole groups of three bytes alone do not depend on what is before and after.
            let skipped = (3 - shift) % 3
            let whole = bytes.dropFirst(skipped)
            let text = Data(whole.prefix(whole.count / 3 * 3)).base64EncodedString()
            encodings.append(("base64 at \(shift)", text))
            let other = text.replacing("+", with: "-").replacing("/", with: "_")
            if other != text { encodings.append(("base64url at \(shift)", other)) }
        }
        return encodings
    }

    /// The bytes that a secret is the base64url text of, if it may be one.
    private static func decoded(_ secret: String) -> Data? {
        let last = secret.split(separator: ".").last.map(String.init) ?? ""
        let standard = last.replacing("-", with: "+").replacing("_", with: "/")
        let padded = standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
        return Data(base64Encoded: padded).flatMap { $0.count >= 16 ? $0 : nil }
    }

    // MARK: Searching

    package func sightings(in data: Data, of place: String) -> [Sighting] {
        patterns.filter { Self.contains(data, $0.bytes) }.map { Sighting(secret: $0.secret, encoding: $0.encoding, place: place) }
    }

    package func sightings(in text: String, of place: String) -> [Sighting] { sightings(in: Data(text.utf8), of: place) }

    /// Searches all files of a directory, and their names.
    package func sightings(below directory: URL) throws -> [Sighting] {
        try FileManager.default.subpathsOfDirectory(atPath: directory.path).flatMap { path -> [Sighting] in
            // Sockets and directories have no contents, and a file may be gone.
            let contents = FileManager.default.contents(atPath: directory.appending(path: path).path) ?? Data()
            return sightings(in: contents, of: path) + sightings(in: path, of: "the name of a file")
        }
    }

    private static func contains(_ data: Data, _ pattern: Data) -> Bool {
        data.withUnsafeBytes { data in
            pattern.withUnsafeBytes { pattern in
                guard var place = data.baseAddress, let wanted = pattern.baseAddress, let first = pattern.first else { return false }
                let end = place + data.count
                while end - place >= pattern.count, let found = memchr(place, Int32(first), end - place - pattern.count + 1) {
                    if memcmp(found, wanted, pattern.count) == 0 { return true }
                    place = UnsafeRawPointer(found) + 1
                }
                return false
            }
        }
    }
}
