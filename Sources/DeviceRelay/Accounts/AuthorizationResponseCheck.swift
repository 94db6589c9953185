// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Reads the head of one HTTP request, without I/O. Everything is bounded, since any program of this machine can connect.
struct RedirectRequestReader {
    static let maximumBytes = 16 << 10

    enum Result: Hashable {
        /// The head is not complete.
        case incomplete
        /// The target of a GET request, such as `/signed-in?code=…`.
        case target(String)
        case invalid(status: Int)
    }

    /// The authority that the browser connects to, such as `127.0.0.1:49152`.
    let authority: String
    /// The value of `Accept-Language`, once the head is complete.
    private(set) var languages: String?
    private var bytes: [UInt8] = []

    init(authority: String) { self.authority = authority }

    mutating func read(_ more: some Collection<UInt8>) -> Result {
        let start = max(0, bytes.count - 3)
        bytes += more.prefix(Self.maximumBytes + 1 - bytes.count)
        let end = bytes[start...].indices.first { bytes[$0...].starts(with: [0x0D, 0x0A, 0x0D, 0x0A]) }
        guard let end else { return bytes.count > Self.maximumBytes ? .invalid(status: 431) : .incomplete }
        return parse(bytes[..<end])
    }

    private mutating func parse(_ head: ArraySlice<UInt8>) -> Result {
        let lines = String(decoding: head, as: UTF8.self).utf8.split(separator: 0x0D, omittingEmptySubsequences: false)
        languages = lines.dropFirst().compactMap { Self.value(of: "accept-language:", $0) }.first
        let words = (lines.first ?? "".utf8[...]).split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 3, words[2].elementsEqual("HTTP/1.1".utf8) || words[2].elementsEqual("HTTP/1.0".utf8),
            words[1].first == UInt8(ascii: "/"), words[1].allSatisfy({ (0x21...0x7E).contains($0) })
        else { return .invalid(status: 400) }
        guard words[0].elementsEqual("GET".utf8) else { return .invalid(status: 405) }
        // A page that another site opened by a rebound name must not reach it.
        let hosts = lines.dropFirst().compactMap { Self.value(of: "host:", $0) }
        guard hosts.count == 1, hosts[0].utf8.elementsEqual(authority.utf8) else { return .invalid(status: 400) }
        return .target(String(decoding: words[1], as: UTF8.self))
    }

    /// The value of a line that is this field.
    /// - Parameter field: The name in lower case, and the colon.
    private static func value(of field: String, _ line: Substring.UTF8View) -> String? {
        let text = String(decoding: line.drop { $0 == 0x0A }, as: UTF8.self)
        guard text.utf8.prefix(field.utf8.count).map({ $0 | 0x20 }) == field.utf8.map({ $0 | 0x20 }) else { return nil }
        let value = text.utf8.dropFirst(field.utf8.count).drop { $0 == 0x20 || $0 == 0x09 }
        return String(decoding: value, as: UTF8.self)
    }
}

/// The response of an issuer that an app waits for at its redirect URI (RFC 6749 §4.1.2, RFC 9207), without I/O.
struct AuthorizationResponseCheck: Hashable, Sendable {
    static let maximumFields = 32
    static let maximumCodeBytes = 4_096

    /// The path of the redirect URI.
    let path: String
    let state: Secret<String>
    let issuer: String
    /// Whether each response of the issuer names it.
    let needsIssuer: Bool

    enum Outcome: Hashable, Sendable {
        case code(Secret<String>)
        /// The issuer refuses, with the value of `error`.
        case refused(String)
        /// Not the response: the wait goes on. The request gets this status.
        case other(status: Int)
    }

    /// - Parameter target: Path and query of the request.
    func outcome(of target: String) -> Outcome {
        let parts = target.utf8.split(separator: UInt8(ascii: "?"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = parts.first, path.elementsEqual(self.path.utf8) else { return .other(status: 404) }
        var fields: [String: String] = [:]
        let pairs = parts.count == 2 ? parts[1].split(separator: UInt8(ascii: "&")) : []
        guard pairs.count <= Self.maximumFields else { return .other(status: 400) }
        for pair in pairs {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = FormCoding.decode(halves[0]), let value = FormCoding.decode(halves.count == 2 ? halves[1] : "".utf8[...]),
                fields.updateValue(value, forKey: name) == nil
            else { return .other(status: 400) }
        }
        guard let state = fields["state"], Self.isSame(state, self.state.exposed) else { return .other(status: 400) }
        guard fields["iss"].map({ $0.utf8.elementsEqual(issuer.utf8) }) ?? !needsIssuer else { return .other(status: 400) }
        switch (fields["code"], fields["error"]) {
        case (let code?, nil):
            guard (1...Self.maximumCodeBytes).contains(code.utf8.count) else { return .other(status: 400) }
            return .code(Secret(code))
        case (nil, let error?): return .refused(error)
        default: return .other(status: 400)
        }
    }

    /// Compares in constant time: such a text is a secret of the sign-in.
    static func isSame(_ left: String, _ right: String) -> Bool {
        guard left.utf8.count == right.utf8.count else { return false }
        return zip(left.utf8, right.utf8).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
