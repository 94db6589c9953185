// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// A URI that can be launched: with a scheme, at most 8 KiB, of the characters that RFC 3986 allows. An http or https URI also has a host,
/// and a port below 65,536 if it has one.
///
/// The text stays as it was given, byte for byte, on its whole way to the program that opens it. RFC 3986's rules for `%` and `#` are
/// not checked: `https://matrix.to/#/#room:server.example` is a URI that people use.
///
/// A text with letters outside ASCII is an IRI (RFC 3987). Write its host in the ASCII form (`xn--…`), and percent-encode the rest in UTF-8.
public struct LaunchURI: Hashable, Sendable, Codable {
    /// The URI as it was given.
    public let text: String

    /// Checks a text.
    /// - Throws: why it is not a URI that can be launched.
    public init(_ text: String) throws(LaunchURIError) {
        try self.init(text, limits: Limits())
    }

    /// Checks the text of a URL.
    ///
    /// `URL(string:)` changes a text that is not valid: at a `%` without two digits, or at a second `#`, it encodes that whole part again.
    /// The original text is then lost, and this initializer cannot know. So make a `LaunchURI` of a text, not of a URL, if the text
    /// comes from outside; or make the URL by `URL(string:encodingInvalidCharacters:)` with `false`.
    /// - Throws: why it is not a URI that can be launched.
    public init(_ url: URL) throws(LaunchURIError) {
        try self.init(url.absoluteString)
    }

    package init(_ text: String, limits: Limits) throws(LaunchURIError) {
        let bytes = text.utf8
        guard bytes.count <= limits[.uriBytes] else {
            throw .tooLong(LimitExceeded(limit: .uriBytes, allowed: limits[.uriBytes], requested: bytes.count))
        }
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), LaunchURI.isScheme(text[..<colon].lowercased()) else { throw .noScheme }
        if let index = text.unicodeScalars.firstIndex(where: { !LaunchURI.isAllowed($0) }) {
            throw .invalidCharacter(text.unicodeScalars[index], offset: bytes.distance(from: bytes.startIndex, to: index))
        }
        self.text = text
        if ["http", "https"].contains(scheme) { try LaunchURI.checkHost(bytes[bytes.index(after: colon)...]) }
    }

    /// The scheme in lower case.
    public var scheme: String { String(decoding: text.utf8.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self).lowercased() }

    /// Checks that what follows the scheme of a web URI has a host, and a port that exists (RFC 9110 §4.2.1).
    private static func checkHost(_ rest: Substring.UTF8View) throws(LaunchURIError) {
        let slash = UInt8(ascii: "/")
        guard rest.starts(with: [slash, slash]) else { throw .noHost }
        let authority = rest.dropFirst(2).prefix { ![slash, UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }
        let place = authority.lastIndex(of: UInt8(ascii: "@")).map { authority[authority.index(after: $0)...] } ?? authority
        // The colons of an IPv6 address are in brackets.
        let afterBracket = place.lastIndex(of: UInt8(ascii: "]")).map { place[place.index(after: $0)...] } ?? place
        let port = afterBracket.firstIndex(of: UInt8(ascii: ":"))
        guard !place[..<(port ?? place.endIndex)].isEmpty else { throw .noHost }
        guard let port else { return }
        let digits = place[place.index(after: port)...]
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            digits.isEmpty || UInt16(Substring(digits)) != nil
        else { throw .invalidPort }
    }

    /// Whether a text is a scheme in lower case (RFC 3986 §3.1).
    package static func isScheme(_ text: String) -> Bool {
        guard (1...64).contains(text.utf8.count), let first = text.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first)
        else {
            return false
        }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"),
                UInt8(ascii: "."):
                true
            default: false
            }
        }
    }

    /// Visible ASCII except the characters that RFC 3986 excludes. A URI percent-encodes all others.
    package static func isAllowed(_ character: Unicode.Scalar) -> Bool {
        switch character {
        case "\"", "<", ">", "\\", "^", "`", "{", "|", "}": false
        default: (0x21...0x7E).contains(character.value)
        }
    }

    /// Reads and checks the text.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do throws(LaunchURIError) {
            try self.init(text)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: error.description)
        }
    }

    /// Writes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

/// Why a text is not a URI that can be launched. The error contains nothing else of the text than one character.
@nonexhaustive public enum LaunchURIError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is longer than allowed.
    case tooLong(LimitExceeded)
    /// It does not begin with a scheme and a colon.
    case noScheme
    /// A character that no URI has. The offset counts UTF-8 bytes from 0.
    case invalidCharacter(Unicode.Scalar, offset: Int)
    /// An http or https URI without a host.
    case noHost
    /// The port of an http or https URI is not a number below 65,536.
    case invalidPort

    /// One line that says what to do.
    public var description: String {
        switch self {
        case .tooLong(let exceeded): exceeded.description
        case .noScheme: "a URI begins with a scheme, such as https:"
        case .invalidCharacter(let character, let offset):
            "the character \(Self.name(of: character)) at position \(offset + 1) cannot be in a URI; \(Self.advice(character))"
        case .noHost: "an http or https URI has a host after //, such as https://www.swift.org"
        case .invalidPort: "the port of this URI is not a number from 0 to 65535"
        }
    }

    /// The character, if it can be seen, and its code point.
    private static func name(of character: Unicode.Scalar) -> String {
        let digits = String(character.value, radix: 16, uppercase: true)
        let code = "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
        let text = String(character)
        return DisplayText.isPlain(text) && DisplayText.isVisible(text) ? "'\(text)' (\(code))" : code
    }

    private static func advice(_ character: Unicode.Scalar) -> String {
        let encoded = UTF8.encode(character)?.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.utf8.count < 2 ? "0" : "") + digits
        }
        return "write it as \((encoded ?? []).joined())" + (character.isASCII ? "" : ", or a host's name in its ASCII form (xn--…)")
    }
}
