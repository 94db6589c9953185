// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct PairingLinkTests {
    static let id = EndpointID(P256SigningKey().publicKey)
    private static let secretText = "AAECAwQFBgcICQoLDA0ODw"
    private static let places = "at=192.168.1.20-4711,at=fd00::1-65535"

    static func text(
        scheme: String = "device-relay-pair:",
        id: String = id.description,
        secret: String = secretText,
        rest: String = places
    ) -> String {
        "\(scheme)#id=\(id),secret=\(secret),\(rest)"
    }

    private static func link(using random: inout SeededGenerator) throws -> PairingLink {
        var places: [PairingLink.Place] = []
        let count = Int.random(in: 1...PairingLink.maximumPlaces, using: &random)
        while places.count < count {
            let address = try #require(IPAddress(bytes: random.bytes(Bool.random(using: &random) ? 4 : 16)))
            // Some bytes are an address that no link has.
            if let place = PairingLink.Place(address, port: .random(in: 1_024 ... .max, using: &random)) { places.append(place) }
        }
        let id = try #require(Digest256(bytes: random.bytes(32)).map(EndpointID.init(digest:)))
        return try PairingLink(id: id, secret: Secret(random.bytes(PairingLink.secretBytes)), places: places)
    }

    @Test func textMatchesTheDocumentation() throws {
        let link = try PairingLink(parsing: Self.text())
        #expect(link.id == Self.id && link.secret.exposed == Array(0..<16))
        #expect(link.places.map(\.address.description) == ["192.168.1.20", "fd00::1"] && link.places.map(\.port) == [4_711, 65_535])
        #expect(link.text == Self.text())
    }

    @Test(arguments: 0..<20 as Range<UInt64>) func linksRoundTrip(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<50 {
            let link = try Self.link(using: &random)
            #expect(try PairingLink(parsing: link.text) == link)
            #expect(link.text.utf8.count <= PairingLink.maximumBytes)
        }
    }

    @Test func longestLinkIsShortEnough() throws {
        let address = try #require(IPAddress(parsing: "2001:dead:beef:dead:beef:dead:beef:dead".utf8))
        let place = try #require(PairingLink.Place(address, port: .max))
        let secret = Secret<[UInt8]>(Array(repeating: 0xFF, count: 16))
        let link = try PairingLink(id: Self.id, secret: secret, places: Array(repeating: place, count: 8))
        #expect(try PairingLink(parsing: link.text) == link)
    }

    @Test func everyURIParserReadsTheText() throws {
        // Brackets around addresses would be no part of a fragment (RFC 3986 §3.5).
        let allowed = Set("-._~!$&'()*+,;=:@/?#".utf8)
        for byte in Self.text().utf8 {
            let isPlain = Unicode.Scalar(byte).properties.isAlphabetic || (0x30...0x39).contains(byte)
            #expect(isPlain || allowed.contains(byte))
        }
    }

    @Test func pastedSurroundingsAreLeftOut() throws {
        let link = try PairingLink(parsing: Self.text())
        let encoded = Self.text().replacing("#", with: "%23")
        let wholly = encoded.replacing(",", with: "%2C").replacing("=", with: "%3d").replacing("::", with: "%3A%3a")
        for inner in [Self.text(), encoded, wholly] {
            for (before, after) in [("", ""), (" ", "\r\n"), ("<", ">"), ("\u{201E}", "\u{201C}"), ("(", ")."), ("\u{FEFF}", "\u{200B}")] {
                #expect(try PairingLink(parsing: before + inner + after) == link, "\(before)…\(after)")
            }
        }
    }

    @Test func unknownMembersAreIgnored() throws {
        #expect(try PairingLink(parsing: Self.text(rest: "later=a=b,\(Self.places),later=")).text == Self.text())
    }

    @Test func addressesInOtherFormsAreRead() throws {
        let link = try PairingLink(parsing: Self.text(rest: "at=FD00:0:0::1-1024,at=::ffff:10.0.0.1-1024"))
        #expect(link.places.map(\.address.description) == ["fd00::1", "10.0.0.1"])
    }

    @Test(arguments: [
        ("", PairingLinkError.scheme),
        ("https://relay.example/#id=a", .scheme),
        (text(scheme: "DEVICE-RELAY-PAIR:"), .scheme),
        (text(scheme: "a device-relay-pair:"), .scheme),
        (text(scheme: "device-relay-pair\u{301}:"), .scheme),
        ("device-relay-pair:", .scheme),
        ("device-relay-pair:x", .noFragment),
        (text(scheme: "device-relay-pair://"), .noFragment),
        (text(scheme: "device-relay-pair:?"), .noFragment),
        ("device-relay-pair:#", .noMember),
        (text(rest: "flag"), .noMember),
        (text(rest: ""), .missing("at")),
        (text(rest: "\(places),,x=y"), .noMember),
        ("device-relay-pair:#secret=\(secretText),\(places)", .missing("id")),
        ("device-relay-pair:#id=\(id),\(places)", .missing("secret")),
        (text(rest: "x=y"), .missing("at")),
        (text(id: ""), .member("id")),
        (text(id: String(id.description.dropLast())), .member("id")),
        (text(id: id.description.uppercased()), .member("id")),
        (text(secret: ""), .member("secret")),
        (text(secret: String(secretText.dropLast())), .member("secret")),
        (text(secret: "AAECAwQFBgcICQoLDA0O"), .member("secret")),
        (text(secret: "AAECAwQFBgcICQoLDA0ODxA"), .member("secret")),
        (text(secret: secretText + "=="), .member("secret")),
        (text(secret: "AAECAwQFBgcICQoLDA0ODx"), .member("secret")),
        (text(rest: "\(places),secret=\(secretText)"), .repeatedMember("secret")),
        (text(rest: "\(places),id=\(id)"), .repeatedMember("id")),
        (text(rest: Array(repeating: "at=10.0.0.1-1024", count: 9).joined(separator: ",")), .tooManyAddresses),
        (text(rest: "x=" + String(repeating: "y", count: 1_024)), .tooLong),
    ])
    func whatIsNoLinkIsRefused(text: String, error: PairingLinkError) {
        #expect(throws: error) { try PairingLink(parsing: text) }
    }

    @Test(arguments: [
        "", "-", "-4711", "10.0.0.1", "10.0.0.1-", "10.0.0.1:4711", "10.0.0.1-0", "10.0.0.1-1023", "10.0.0.1-65536", "10.0.0.1-+4711",
        "10.0.0.1-04711", "10.0.0.1- 4711", "10.0.0.1-4711-4711", "10.0.0.1-99999999999999999999", "10.0.0-4711", "10.0.0.01-4711",
        "010.0.0.1-4711", "host-4711", "[fd00::1]-4711", "fd00::1%eth0-4711", "fd00::1", "fd00::g-4711", "10.0.0.1-\u{664}711",
        // Of this machine, or of one link.
        "127.0.0.1-4711", "0.0.0.0-4711", "::1-4711", "::-4711", "::ffff:127.0.0.1-4711", "224.0.0.251-5353", "255.255.255.255-4711",
        "ff02::fb-5353", "fe80::1-4711", "169.254.1.1-4711",
    ])
    func whatIsNoAddressIsRefused(place: String) {
        #expect(throws: PairingLinkError.member("at")) { try PairingLink(parsing: Self.text(rest: "at=\(place),\(Self.places)")) }
    }

    @Test(arguments: 0..<10 as Range<UInt64>) func variantsAreReadOrRefused(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let text = try Self.link(using: &random).text
        for variant in TextVariants.texts(of: text, 200, using: &random) {
            guard let link = try? PairingLink(parsing: variant) else { continue }
            #expect(try PairingLink(parsing: link.text) == link)
            #expect(!link.text.hasControlCharacters)
        }
    }

    @Test func secretsAreNotPrinted() throws {
        let link = try PairingLink(parsing: Self.text(rest: "at=10.98.76.54-4711"))
        var dumped = ""
        dump(link, to: &dumped)
        for text in ["\(link)", String(reflecting: link), dumped, "\([link])", "\(Optional(link) as Any)"] {
            #expect(!text.contains(Self.secretText) && !text.contains("98, 76") && !text.contains("10.98") && !text.contains("2, 3, 4"))
        }
    }

    @Test func errorsDoNotQuoteTheLink() {
        let rests = ["canary", "at=canary"].map { Self.text(rest: $0) }
        for text in ["canary", Self.text(id: "canary"), Self.text(secret: "canary")] + rests {
            do throws(PairingLinkError) {
                _ = try PairingLink(parsing: text)
                Issue.record("this is no link")
            } catch {
                #expect(!"\(error)".contains("canary") && !String(reflecting: error).contains("canary"))
            }
        }
    }
}
