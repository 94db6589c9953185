// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

@Suite struct JoinLinkTests {
    static let relay = RelayID(P256SigningKey().publicKey)

    static func text(
        origin: String = "https://relay.example:8443",
        relay: String = relay.description,
        rest: String = "invite=abc_-9"
    ) -> String {
        "\(origin)/#relay=\(relay),\(rest)"
    }

    @Test func pastedSurroundingsAreLeftOut() throws {
        let text = Self.text(rest: "invite=abc,proof=def")
        let link = try JoinLink(parsing: text)
        let encoded = text.replacing("#", with: "%23")
        let wholly = encoded.replacing(",", with: "%2C").replacing("=", with: "%3d")
        for inner in [text, encoded, wholly] {
            for (before, after) in [
                ("", ""), (" ", " "), ("\n\t", "\r\n"), ("<", ">"), ("\"", "\""), ("'", "'"), ("\u{201E}", "\u{201C}"),
                ("\u{AB}\u{A0}", "\u{A0}\u{BB}"), ("(", ")."),
                ("", "."), ("", ","), ("", "!"), ("\u{FEFF}\u{200B}", "\u{200B}"), ("[", "];"), ("`", "`"),
            ] {
                #expect(try JoinLink(parsing: before + inner + after) == link, "\(before)…\(after)")
            }
        }
        // An ellipsis says that the rest is missing.
        #expect(throws: JoinLinkError.self) { try JoinLink(parsing: text + "\u{2026}") }
        #expect(throws: JoinLinkError.self) { try JoinLink(parsing: "a" + text) }
        #expect(throws: JoinLinkError.tooLong) {
            try JoinLink(parsing: Self.text(rest: "invite=abc,x=" + String(repeating: "y", count: 2_048)))
        }
    }

    @Test(arguments: [
        "https://relay.example", "https://relay.example:1", "https://192.168.1.20:8443", "https://[fd00::1]:65535", "https://a-b.example",
    ])
    func joinLinksRoundTrip(origin: String) throws {
        for proof in [nil, Secret("p-_9")] {
            let link = try JoinLink(origin: origin, relay: Self.relay, invite: Secret("abc"), proof: proof)
            #expect(try JoinLink(parsing: link.text) == link)
        }
    }

    @Test func joinLinkTextMatchesTheDocumentation() throws {
        let link = try JoinLink(origin: "https://relay.example:8443", relay: Self.relay, invite: Secret("abc"), proof: Secret("xyz"))
        #expect(link.text == "https://relay.example:8443/#relay=\(Self.relay),invite=abc,proof=xyz")
    }

    @Test func unknownMembersAreIgnored() throws {
        let link = try JoinLink(parsing: Self.text(rest: "invite=abc,later=thing,flag"))
        #expect(link.invite.exposed == "abc")
        #expect(link.proof == nil)
    }

    @Test func plainHTTPMustBeAllowedExplicitly() throws {
        let text = Self.text(origin: "http://127.0.0.1:8080")
        #expect(throws: JoinLinkError.plainHTTP) { try JoinLink(parsing: text) }
        #expect(try JoinLink(parsing: text, plainHTTP: .allowed).origin == "http://127.0.0.1:8080")
    }

    @Test(arguments: [
        ("", JoinLinkError.noFragment),
        ("https://relay.example/", .noFragment),
        ("https://relay.example/#", .missing("relay")),
        (text(rest: "x=y"), .missing("invite")),
        (text(rest: "invite="), .member("invite")),
        (text(rest: "invite=a b"), .member("invite")),
        (text(rest: "invite=" + String(repeating: "a", count: 257)), .member("invite")),
        (text(rest: "invite=abc,proof=%20"), .member("proof")),
        (text(rest: "invite=abc,invite=def"), .repeatedMember),
        (text(relay: String(relay.description.dropLast())), .member("relay")),
        (text(relay: relay.description.uppercased()), .member("relay")),
        (text(origin: "ftp://relay.example"), .scheme),
        (text(origin: "HTTPS://relay.example"), .scheme),
        (text(origin: "https://"), .address),
        (text(origin: "https://user@relay.example"), .address),
        (text(origin: "https://relay.example/path"), .address),
        (text(origin: "https://relay.example?query"), .address),
        (text(origin: "https://relay.example:0"), .address),
        (text(origin: "https://relay.example:65536"), .address),
        (text(origin: "https://relay.example:+1"), .address),
        (text(origin: "https://relay.example:"), .address),
        (text(origin: "https://[::1"), .address),
        (text(origin: "https://[::1]x"), .address),
        (text(origin: "https://r\u{E9}lay.example"), .address),
        (text(origin: "https://relay.example/\u{301}"), .address),
        (text(origin: "https://relay.example\u{0D4E}/"), .address),
        (text(origin: "https://relay.example/\u{301}/"), .address),
        (text(origin: "https://\u{212A}.example"), .address),
        (text(origin: "https://" + String(repeating: "a", count: 256)), .address),
        (String(repeating: "#", count: 3_000), .tooLong),
    ])
    func whatIsNoLinkIsRefused(text: String, error: JoinLinkError) {
        #expect(throws: error) { try JoinLink(parsing: text) }
    }

    @Test func joinLinkSecretsAreNotPrinted() throws {
        let link = try JoinLink(
            origin: "https://relay.example",
            relay: Self.relay,
            invite: Secret("canaryInvite"),
            proof: Secret("canaryProof")
        )
        var dumped = ""
        dump(link, to: &dumped)
        for text in ["\(link)", String(reflecting: link), dumped, "\([link])", "\(Optional(link) as Any)"] {
            #expect(!text.contains("canary"))
        }
    }

    @Test func joinLinkErrorsDoNotQuoteTheLink() {
        for text in ["https://canary.example/#relay=canary,invite=canary", "canary#canary", "https://relay.example/#invite=canary"] {
            do throws(JoinLinkError) {
                _ = try JoinLink(parsing: text)
                Issue.record("this is no link")
            } catch {
                #expect(!"\(error)".contains("canary") && !String(reflecting: error).contains("canary"))
            }
        }
    }
}
