// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct IdentifierTests {
    /// The fingerprint of this key was computed with `openssl pkey -pubin -outform der | sha256sum` and `base32`.
    @Test func endpointIDIsTheHashOfTheSPKI() throws {
        let key = P256SigningKey().publicKey
        #expect(key.spki.count == 91)
        #expect(EndpointID(key).digest.bytes == Array(SHA256.hash(data: key.spki)))
    }

    @Test func identifierTextIsLowercaseBase32() throws {
        // The examples of RFC 4648 §10 in lower case without padding, and 32 bytes with a known text.
        #expect(Base32.encode(Array("foobar".utf8)) == "mzxw6ytboi")
        #expect(Base32.encode(Array("f".utf8)) == "my")
        let digest = try #require(Digest256(bytes: Array(0..<32)))
        #expect(digest.description == "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq")
        #expect(try EndpointID(parsing: digest.description).digest == digest)
        #expect(EndpointID(digest: digest).label == "aaaqeaye")
        var random = SeededGenerator(seed: 3)
        for _ in 0..<200 {
            let digest = try #require(Digest256(bytes: random.bytes(32)))
            #expect(try SystemID(parsing: digest.description).digest == digest)
            #expect(Digest256(bytes: digest.bytes) == digest)
        }
    }

    @Test func invalidIdentifiersAreRejected() {
        let good = "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypq"
        func reason(_ text: String) -> IdentifierError.Reason? {
            error(of: IdentifierError.self) { try RelayID(parsing: text) }?.reason
        }
        #expect(reason(good) == nil)
        #expect(reason("") == .wrongLength(expected: 52, found: 0))
        #expect(reason(good + "a") == .wrongLength(expected: 52, found: 53))
        #expect(reason(good.uppercased()) == .invalidCharacter(offset: 0))
        #expect(reason("1" + good.dropFirst()) == .invalidCharacter(offset: 0))
        #expect(reason(good.prefix(26) + "=" + good.suffix(25)) == .invalidCharacter(offset: 26))
        // The last character carries only one bit: otherwise fifteen other texts would name the same key.
        #expect(reason(good.dropLast() + "r") == .invalidCharacter(offset: 51))
        #expect(EndpointID("x") == nil)
    }

    @Test func identifiersAreComparedByBytes() throws {
        let low = try #require(Digest256(bytes: [UInt8](repeating: 0, count: 31) + [1]))
        let high = try #require(Digest256(bytes: [1] + [UInt8](repeating: 0, count: 31)))
        #expect(EndpointID(digest: low) < EndpointID(digest: high))
        #expect(EndpointID(digest: low) != EndpointID(digest: high))
        #expect(Digest256(bytes: [1, 2]) == nil)
    }

    @Test func identifiersAreTextInJSON() throws {
        let id = EndpointID(P256SigningKey().publicKey)
        let data = try JSONEncoder().encode([id])
        #expect(String(decoding: data, as: UTF8.self) == "[\"\(id)\"]")
        #expect(try JSONDecoder().decode([EndpointID].self, from: data) == [id])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([EndpointID].self, from: Data("[\"x\"]".utf8)) }
    }

    @Test func commandIDsGrowWithAnyClock() throws {
        var random = SeededGenerator(seed: 4)
        var generator = CommandIDGenerator()
        var last: CommandID?
        var now: UInt64 = 1_793_000_000_000
        for _ in 0..<20_000 {
            now = random.oneIn(3) ? now &+ UInt64.random(in: 0...5, using: &random) : now
            if random.oneIn(100) { now -= 10_000 }
            let id = generator.next(now: now, using: &random)
            if let last { #expect(last < id) }
            #expect(CommandID(uuid: id.uuid) == id)
            #expect(id.description == id.uuid.uuidString.lowercased())
            #expect(CommandID(id.description) == id)
            #expect(CommandID(id.uuid.uuidString) == id)
            last = id
        }
        let first = CommandIDGenerator.first(now: 0x0123_4567_89AB)
        #expect(first.description.hasPrefix("01234567-89ab-7"))
        #expect(CommandID(UUID().uuidString) == nil)
        #expect(CommandID("x") == nil)
        // No other character is valid at any position.
        let text = Array(first.description.utf8)
        for place in text.indices {
            for other in "-g/:@`G\u{0} ".utf8 where other != text[place] {
                var changed = text
                changed[place] = other
                #expect(CommandID(String(decoding: changed, as: UTF8.self)) == nil)
            }
        }
        #expect(CommandID(first.description + "0") == nil)
        #expect(CommandID(String(first.description.dropLast())) == nil)
    }

    @Test func commandIDsGrowWhenTheCounterOverflows() {
        struct Maximum: RandomNumberGenerator { mutating func next() -> UInt64 { .max } }
        var random = Maximum()
        var generator = CommandIDGenerator()
        var last = generator.next(now: 5, using: &random)
        for _ in 0..<5_000 {
            let id = generator.next(now: 5, using: &random)
            #expect(last < id)
            last = id
        }
    }

    @Test func tunnelIDsAreHexadecimal() throws {
        var random = SeededGenerator(seed: 5)
        let id = TunnelID(using: &random)
        #expect(TunnelID(id.description) == id)
        #expect(TunnelID(bytes: id.bytes) == id)
        #expect(id.description == hex(id.bytes))
        for text in ["", "00", String(repeating: "0", count: 31) + "g", String(repeating: "A", count: 32)] {
            #expect(TunnelID(text) == nil)
        }
        #expect(TunnelID(bytes: [1, 2]) == nil)
    }

    @Test func launchURIsRequireASchemeAndAllowedCharacters() throws {
        for text in ["https://films.example/42?t=1200#a", "film:42", "HTTP://x", "mailto:a@b.c", "x-app+1.2:", "https://[::1]/'();,~"] {
            #expect(try LaunchURI(text).text == text)
        }
        #expect(try LaunchURI("HTTPS://x").scheme == "https")
        #expect(try LaunchURI(#require(URL(string: "https://example.org/ä"))).text == "https://example.org/%C3%A4")
        // The text stays as it is, also where `URL(string:)` would encode it again.
        for text in ["https://a.example/p%20q#f#g%20h", "https://matrix.to/#/#room:server.example", "https://a.example/%zz?%"] {
            #expect(try LaunchURI(text).text.utf8.elementsEqual(text.utf8))
        }
        func rejection(_ text: String) -> LaunchURIError? { error(of: LaunchURIError.self) { try LaunchURI(text) } }
        for text in ["", "films.example/42", "//films.example", ":x", "1x:y", "ht tp://x", "é:x"] { #expect(rejection(text) == .noScheme) }
        #expect(rejection("film:a b") == .invalidCharacter(" ", offset: 6))
        #expect(rejection("film:\n") == .invalidCharacter("\n", offset: 5))
        #expect(rejection("film:é") == .invalidCharacter("é", offset: 5))
        #expect(rejection("film:aé\u{0}") == .invalidCharacter("é", offset: 6))
        #expect(rejection("film:a\u{0}") == .invalidCharacter("\0", offset: 6))
        #expect(rejection("film:{")?.description.contains("'{' (U+007B) at position 6") == true)
        #expect(rejection("film:\u{202E}")?.description.contains("character U+202E at") == true)
        let longest = "film:" + String(repeating: "a", count: 8_192 - 5)
        #expect(rejection(longest) == nil)
        #expect(rejection(longest + "a") == .tooLong(LimitExceeded(limit: .uriBytes, allowed: 8_192, requested: 8_193)))
        for text in [
            "https:", "https://", "http:///path", "https:a.example", "https:/a.example", "http://:80", "https://u@", "https://?q",
            "https://#f",
        ] {
            #expect(rejection(text) == .noHost, "\(text)")
        }
        for text in ["https://a:99999", "https://a:65536/", "https://a:x", "https://a:80:80", "https://[::1]:-1", "https://[::1"] {
            #expect(rejection(text) == .invalidPort, "\(text)")
        }
        for text in [
            "https://a:", "https://a:65535", "https://u:p@a:1", "https://[::1]", "https://[::1]:80/", "x-film:", "x-film://",
            "x-film://a:99999",
        ] {
            #expect(rejection(text) == nil, "\(text)")
        }
        #expect(rejection("secret\n:x")?.description.contains("secret") == false)
    }

    @Test func limitErrorsNameTheLimitAndLimitsAreClamped() throws {
        var limits = Limits()
        #expect(limits[.messageBytes] == 16 << 20)
        try limits.check(.messageBytes, 16 << 20)
        let exceeded = error(of: LimitExceeded.self) { try limits.check(.messageBytes, 16 << 20 + 1) }
        #expect(exceeded?.description == "messageBytes is limited to 16777216 bytes, 16777217 was asked for")
        limits[.messageBytes] = 5
        #expect(error(of: LimitExceeded.self) { try limits.check(.messageBytes, 6) }?.allowed == 5)
        limits[.messageBytes] = .max
        #expect(limits[.messageBytes] == Limits.ceiling)
        limits[.messageBytes] = -1
        #expect(limits[.messageBytes] == 1)
        var json = JSONWriter()
        limits.write(to: &json)
        let read = try Limits(json: JSONValue(parsing: json.bytes))
        for limit in Limit.allCases { #expect(read[limit] == limits[limit]) }
        #expect(try Limits(json: JSONValue(parsing: Array(#"{"uriBytes": 7, "unheardOf": 1}"#.utf8)))[.uriBytes] == 7)
    }
}

extension CommandIDGenerator {
    static func first(now: UInt64) -> CommandID {
        var generator = CommandIDGenerator()
        var random = SeededGenerator(seed: 1)
        return generator.next(now: now, using: &random)
    }
}
