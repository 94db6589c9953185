// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The line `Exec` of a desktop entry that takes one URI, as a vector of arguments. No shell reads it.
struct ExecLine: Hashable, Sendable {
    static let mostArguments = 100

    private enum Part: Hashable {
        case text(String)
        /// The URI behind a text, such as `--url=`, which can be empty.
        case uri(after: String)
    }

    private let parts: [Part]

    /// - Parameters:
    ///   - line: The line, without the escape sequences of its file.
    ///   - name: The text in place of `%c`.
    ///   - icon: The text behind `--icon` in place of `%i`, if it is not empty.
    ///   - path: The text in place of `%k`.
    /// - Returns: `nil` if the line is not valid, or has not exactly one place for a URI.
    init?(_ line: String, name: String, icon: String, path: String) {
        guard let words = Self.words(line), let program = words.first, !program.isEmpty else { return nil }
        // A program is an absolute path, or a name that is searched in `PATH`.
        guard program.utf8.first == UInt8(ascii: "/") || !program.utf8.contains(UInt8(ascii: "/")),
            !program.utf8.contains(where: { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "=") })
        else { return nil }
        var parts: [Part] = []
        for word in words {
            guard let expanded = Self.expanded(word, name: name, icon: icon, path: path) else { return nil }
            parts += expanded
        }
        let places = parts.count { if case .uri = $0 { true } else { false } }
        guard places == 1 else { return nil }
        self.parts = parts
    }

    /// The arguments besides the URI; the first one is the program.
    var texts: [String] { parts.compactMap { if case .text(let text) = $0 { text } else { nil } } }

    var program: String { texts.first ?? "" }

    func arguments(with uri: LaunchURI) -> [String] {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .uri(let before): before + uri.text
            }
        }
    }

    // MARK: Parsing

    /// Splits a line at spaces, with the quoting of a shell. It is wider than the specification's: as for other readers, an argument may be
    /// quoted in part, or in single quotes.
    /// - Returns: `nil` for a quote without an end, a NUL character, and too many arguments.
    static func words(_ line: String) -> [String]? {
        let (backslash, double, single) = (UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "'"))
        var words: [String] = []
        var word: [UInt8]?
        var quote: UInt8?
        var bytes = line.utf8.makeIterator()
        func end() {
            if let word { words.append(String(decoding: word, as: UTF8.self)) }
            word = nil
        }
        while let byte = bytes.next() {
            guard byte != 0, words.count < mostArguments else { return nil }
            switch (quote, byte) {
            case (let open?, _) where byte == open: quote = nil
            case (double?, backslash):
                guard let next = bytes.next(), next != 0 else { return nil }
                let isEscaped = [double, backslash, UInt8(ascii: "`"), UInt8(ascii: "$")].contains(next)
                word = (word ?? []) + (isEscaped ? [next] : [backslash, next])
            case (_?, _): word = (word ?? []) + [byte]
            case (nil, backslash):
                guard let next = bytes.next(), next != 0 else { return nil }
                word = (word ?? []) + [next]
            case (nil, double), (nil, single):
                quote = byte
                word = word ?? []
            case (nil, UInt8(ascii: " ")), (nil, UInt8(ascii: "\t")), (nil, UInt8(ascii: "\n")): end()
            default: word = (word ?? []) + [byte]
            }
        }
        guard quote == nil else { return nil }
        end()
        return words.count <= mostArguments ? words : nil
    }

    /// Replaces the field codes of an argument.
    private static func expanded(_ word: String, name: String, icon: String, path: String) -> [Part]? {
        switch word {
        case "%u", "%U": return [.uri(after: "")]
        case "%i": return icon.isEmpty ? [] : [.text("--icon"), .text(icon)]
        // Files, and codes that are no longer used.
        case "%f", "%F", "%d", "%D", "%n", "%N", "%v", "%m": return []
        default: break
        }
        var text: [UInt8] = []
        var bytes = word.utf8.makeIterator()
        while let byte = bytes.next() {
            guard byte == UInt8(ascii: "%") else {
                text.append(byte)
                continue
            }
            switch bytes.next() {
            case UInt8(ascii: "%"): text.append(byte)
            case UInt8(ascii: "c"): text += name.utf8
            case UInt8(ascii: "k"): text += path.utf8
            // Inside an argument the URI could get another meaning. It is the end of one behind `=` at most.
            case UInt8(ascii: "u") where text.last == UInt8(ascii: "="):
                guard bytes.next() == nil else { return nil }
                return [.uri(after: String(decoding: text, as: UTF8.self))]
            default: return nil
            }
        }
        guard !text.contains(0) else { return nil }
        return [.text(String(decoding: text, as: UTF8.self))]
    }
}
