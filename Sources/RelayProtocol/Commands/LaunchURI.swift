// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A URI that can be launched: with a scheme, at most 8 KiB, of the characters that RFC 3986 allows.
public struct LaunchURI: Hashable, Sendable, Codable {
    /// The URI as it was given.
    public let text: String

    /// Checks a text.
    /// - Throws: why it is not a URI that can be launched.
    public init(_ text: String) throws(LaunchURIError) {
        try self.init(text, limits: Limits())
    }

    /// Checks a URL.
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
        if let offset = bytes.enumerated().first(where: { !LaunchURI.isAllowed($0.element) })?.offset {
            throw .invalidCharacter(offset: offset)
        }
        self.text = text
    }

    /// The scheme in lower case.
    public var scheme: String { text.prefix { $0 != ":" }.lowercased() }

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
    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"), UInt8(ascii: "`"),
            UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
            false
        default: (0x21...0x7E).contains(byte)
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

/// Why a text is not a URI that can be launched. The error never contains the text.
@nonexhaustive public enum LaunchURIError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is longer than allowed.
    case tooLong(LimitExceeded)
    /// It does not begin with a scheme and a colon.
    case noScheme
    /// A character must be percent-encoded. The offset counts UTF-8 bytes from 0.
    case invalidCharacter(offset: Int)

    /// One line that says what to do.
    public var description: String {
        switch self {
        case .tooLong(let exceeded): exceeded.description
        case .noScheme: "a URI begins with a scheme, such as https:"
        case .invalidCharacter(let offset): "the character at position \(offset + 1) must be percent-encoded"
        }
    }
}
