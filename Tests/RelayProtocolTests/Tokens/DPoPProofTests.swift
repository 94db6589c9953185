// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct DPoPProofTests {
    let key = P256SigningKey()
    let url = "https://relay.example/auth/token"
    let now: Milliseconds = 1_700_000_000_000

    func proof(method: String = "POST", url: String? = nil, at time: Milliseconds? = nil, accessToken: String? = nil) throws -> String {
        try DPoPProof.make(
            method: method,
            url: url ?? self.url,
            jti: [1, 2, 3],
            now: time ?? now,
            accessToken: accessToken,
            with: key
        )
    }

    func check(_ text: String, accessToken: String? = nil) throws(DPoPError) -> DPoPProof {
        try DPoPProof(
            checking: text,
            method: "POST",
            urls: ["https://other.example/auth/token", url],
            now: now,
            accessToken: accessToken
        )
    }

    /// A signed proof with a manually written header and payload.
    func forged(header: String, payload: String) throws -> String {
        let signed = Base64.url.encode(header.utf8) + "." + Base64.url.encode(payload.utf8)
        return signed + "." + Base64.url.encode(try key.signature(for: Array(signed.utf8)))
    }

    var jwk: String {
        get throws { String(decoding: try JSONEncoder().encode(JSONWebKey(key.publicKey)), as: UTF8.self) }
    }

    var goodPayload: String { #"{"jti":"a","htm":"POST","htu":"\#(url)","iat":1700000000}"# }

    @Test func madeProofIsAccepted() throws {
        let checked = try check(proof())
        #expect(checked.key == key.publicKey)
        #expect(checked.ends == 1_700_000_060_001)
    }

    @Test func thumbprintMatchesTheExampleOfTheStandard() throws {
        let jwk = JSONWebKey(
            kty: "EC",
            crv: "P-256",
            x: "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
            y: "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"
        )
        #expect(try #require(jwk.signingKey).jwkThumbprint == "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I")
    }

    @Test func clockSkewIsLimitedToTheLeeway() throws {
        for skew: Int64 in [-60_000, 0, 60_000] { _ = try check(proof(at: Milliseconds(clamping: now.count + skew))) }
        for skew: Int64 in [-61_000, 61_000, -3_600_000, 3_600_000] {
            #expect(throws: DPoPError.time) { try check(proof(at: Milliseconds(clamping: now.count + skew))) }
        }
    }

    @Test func proofForAnotherRequestIsRejected() throws {
        #expect(throws: DPoPError.method) { try check(proof(method: "GET")) }
        for url in ["https://evil.example/auth/token", url + "/", url + "?a=b", "http://relay.example/auth/token"] {
            #expect(throws: DPoPError.url) { try check(proof(url: url)) }
        }
    }

    @Test func presentedTokenMustMatchTheProof() throws {
        _ = try check(proof(accessToken: "token"), accessToken: "token")
        #expect(throws: DPoPError.accessToken) { try check(proof(accessToken: "other"), accessToken: "token") }
        #expect(throws: DPoPError.accessToken) { try check(proof(), accessToken: "token") }
    }

    @Test func proofSignedByAnotherKeyIsRejected() throws {
        let other = try JSONEncoder().encode(JSONWebKey(P256SigningKey().publicKey))
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(String(decoding: other, as: UTF8.self))}"#
        #expect(throws: DPoPError.signature) { try check(forged(header: header, payload: goodPayload)) }
    }

    @Test func changedProofIsRejected() throws {
        let text = try proof()
        let parts = text.split(separator: ".")
        let payload = Base64.url.encode(goodPayload.utf8)
        #expect(throws: DPoPError.signature) { try check("\(parts[0]).\(payload).\(parts[2])") }
    }

    @Test(arguments: ["none", "HS256", "RS256", "ES384", "es256", ""])
    func otherAlgorithmsAreRejected(algorithm: String) throws {
        let header = #"{"typ":"dpop+jwt","alg":"\#(algorithm)","jwk":\#(try jwk)}"#
        #expect(throws: DPoPError.algorithm) { try check(forged(header: header, payload: goodPayload)) }
    }

    /// RFC 9449 §4.3: the key in the header has no private half.
    @Test(arguments: ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]) func proofWithAPrivateKeyIsRejected(member: String) throws {
        let key = try jwk.dropLast()
        for value in [#""AA""#, "null", "[]"] {
            let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(key),"\#(member)":\#(value)}}"#
            #expect(throws: DPoPError.malformed, "\(value)") { try check(forged(header: header, payload: goodPayload)) }
        }
        _ = try check(forged(header: #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(key),"other":"AA"}}"#, payload: goodPayload))
    }

    @Test func malformedProofsAreRejected() throws {
        let good = try #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk)}"#
        var texts = try [
            "", ".", "..", "...", "a.b.c", "\(proof()).x", " " + proof(), proof() + "=", String(repeating: "a", count: 20_000),
            forged(header: #"{"alg":"ES256","jwk":\#(jwk)}"#, payload: goodPayload),
            forged(header: #"{"typ":"at+jwt","alg":"ES256","jwk":\#(jwk)}"#, payload: goodPayload),
            forged(header: #"{"typ":"dpop+jwt","alg":"ES256"}"#, payload: goodPayload),
            forged(header: #"{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}}"#, payload: goodPayload),
            forged(header: #"{"typ":"dpop+jwt","alg":"ES256","crit":["x"],"jwk":\#(jwk)}"#, payload: goodPayload),
            forged(header: String(repeating: "[", count: 5_000), payload: goodPayload),
        ]
        for payload in [
            "", "null", "[]", "{}", #"{"jti":"","htm":"POST","htu":"\#(url)","iat":1700000000}"#,
            #"{"jti":"\#(String(repeating: "j", count: 257))","htm":"POST","htu":"\#(url)","iat":1700000000}"#,
            #"{"jti":"a","htm":"POST","htu":"\#(url)","iat":1e300}"#, #"{"jti":"a","htm":"POST","htu":"\#(url)","iat":-1}"#,
            #"{"jti":"a","htm":"POST","htu":"\#(url)","iat":"1700000000"}"#, #"{"jti":7,"htm":"POST","htu":"\#(url)","iat":1700000000}"#,
        ] {
            texts.append(try forged(header: good, payload: payload))
        }
        for (index, text) in texts.enumerated() {
            #expect(throws: DPoPError.malformed, "text \(index)") { try check(text) }
        }
    }

    @Test func proofIDDependsOnKeyAndJTI() throws {
        let first = try check(proof())
        #expect(try check(proof(at: 1_700_000_001_000)).id == first.id)
        let other = try DPoPProof.make(method: "POST", url: url, jti: [1, 2, 3], now: now, with: P256SigningKey())
        #expect(try check(other).id != first.id)
    }
}
