// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

/// Generates the files of `docs/vectors`. Keys, times and seals are constant; signatures are random and change with each run.
struct VectorMaker {
    static let names = [
        "phone.identity", "phone.system", "phone.agreement", "phone.link", "pc.identity", "pc.system", "pc.agreement", "pc.link",
        "other.identity", "other.agreement",
        "relay", "otherRelay", "ephemeral.launch", "ephemeral.message", "ephemeral.reply", "ephemeral.refused",
    ]

    let keys: KeyVectors
    let account = "account-1"
    let time: Int64 = 1_793_000_000_000

    init() throws { self.keys = try KeyVectors.made(Self.names) }

    var relay: RelayID { get throws { RelayID(try keys.signing("relay").publicKey) } }

    func record(_ device: String, version: UInt64 = 1, name: String? = nil, proof: [UInt8]? = nil, account: String? = nil) throws
        -> EndpointRecord
    {
        try EndpointRecord(
            version: version,
            account: account ?? self.account,
            identityKey: try keys.signing("\(device).identity").publicKey,
            systemKey: try keys.signing("\(device).system"),
            agreementKey: try keys.agreement("\(device).agreement").publicKey,
            // An endpoint without direct paths has none.
            linkKey: device == "pc" ? try keys.link("pc.link").publicKey : nil,
            name: name ?? (device == "pc" ? "PC in the study" : "Telefon für alle ☎"),
            kind: device == "pc" ? "desktop" : "phone",
            platform: device == "pc" ? "linux" : "ios",
            manufacturer: device == "pc" ? "ACME" : nil,
            model: device == "pc" ? "One" : nil,
            invitationProof: proof
        )
    }

    /// An envelope around any bytes, signed for any purpose.
    func envelope(_ body: [UInt8], by signer: String, for purpose: Purpose, change: ((inout ValueSet) -> Void)? = nil) throws -> [UInt8] {
        var envelope: ValueSet = [
            "body": .data(body), "signature": .data(try keys.signing(signer).sign(body, for: purpose)),
        ]
        change?(&envelope)
        return try envelope.encodedBytes()
    }

    func body(_ payload: some SignedPayload) throws -> [UInt8] { try ValueSetEncoder().encode(payload).encodedBytes() }

    /// The bytes with one bit flipped.
    func flipped(_ bytes: [UInt8], at index: Int) -> [UInt8] {
        var bytes = bytes
        bytes[index] ^= 1
        return bytes
    }

    // MARK: Values

    func values() throws -> ValueVectors {
        let deep = (0..<31).reduce(ValueSet()) { set, _ in ["a": .valueSet(set)] as ValueSet }
        let uuid = try #require(UUID(uuidString: "00112233-4455-6677-8899-aabbccddeeff"))
        let valid: [(String, ValueSet)] = [
            ("empty", [:]),
            ("text", ["": "", "a": "äöü 日本 😀", "line": "a\n\"\u{1}\\"]),
            ("booleans", ["no": false, "yes": true]),
            (
                "integers",
                [
                    "a": 0, "b": 23, "c": 24, "d": 255, "e": 256, "f": 65_535, "g": 65_536, "h": .int(1 << 32), "i": -1, "j": -24, "k": -25,
                    "l": .int((1 << 53) - 1), "m": .int(1 << 53), "n": .int(.max), "o": .int(.min), "p": .uint(1 << 63), "q": .uint(.max),
                ]
            ),
            (
                "doubles",
                [
                    "a": 0.0, "b": -0.0, "c": 1.5, "d": 65_504.0, "e": 65_505.0, "f": .double(5.960_464_477_539_063e-8), "g": 0.1,
                    "h": 1e300,
                    "i": .double(.nan), "j": .double(.infinity), "k": .double(-.infinity),
                    "l": .double(Double(Float.leastNonzeroMagnitude)),
                ]
            ),
            (
                "dates",
                [
                    "a": .date(Date(timeIntervalSince1970: 0)), "b": .date(Date(timeIntervalSince1970: 1_793_000_000.5)),
                    "c": .date(Date(timeIntervalSince1970: -1)), "d": .date(Date(timeIntervalSince1970: 9_007_199_254_740_991)),
                ]
            ),
            ("UUID", ["id": .uuid(uuid)]),
            ("data", ["empty": .data([]), "some": .data([0xFF, 0x00])]),
            (
                "arrays",
                ["integers": .array([.int(-1), .uint(.max)]), "none": .array([]), "sets": .array([["a": 1], [:]]), "texts": ["a", "b"]]
            ),
            ("keys sort by length, then bytes", ["b": 1, "aa": 2, "é": 3, "e\u{301}": 4, "z": 5]),
            ("keys that look like tags", ["$date": 1, "$$": ["$data": "x"]]),
            ("32 levels", deep),
        ]
        let refusedCBOR: [(String, String)] = [
            ("nothing", ""), ("a text that ends early", "a161616361"), ("a length beyond the input", "a161615bffffffffffffffff00"),
            ("a trailing byte", "a0f6"), ("no map", "80"), ("a key that is no text", "a10101"), ("the same key twice", "a2616101616102"),
            ("keys out of order", "a2616201616102"), ("a longer key first", "a262616101616202"),
            ("two kinds in an array", "a1616182016162"),
            ("an unknown tag", "a16161c200"), ("a date of text", "a16161c1616e"),
            ("a UUID of 15 bytes", "a16161d8254f" + String(repeating: "00", count: 15)),
            ("an infinite date", "a16161c1f97c00"), ("null", "a16161f6"), ("undefined", "a16161f7"), ("a simple value", "a16161e0"),
            ("a reserved head", "a161611c"), ("an indefinite array", "a161619fff"), ("an indefinite map", "bfff"),
            ("an integer that is not in its shortest form", "a161611817"), ("a length that is not in its shortest form", "b801616101"),
            ("a float that is not in its shortest form", "a16161fb3ff8000000000000"), ("another NaN", "a16161f97e01"),
            ("a whole date as a float", "a16161c1f93c00"), ("text that is no UTF-8", "a1616161ff"),
            ("an integer below -2^63", "a161613b8000000000000000"),
            ("33 levels", String(repeating: "a16161", count: 32) + "a0"),
        ]
        let refusedJSON: [(String, String)] = [
            ("nothing", ""), ("an open object", "{"), ("an array", "[]"), ("two objects", "{} {}"), ("a key that is no text", "{1:2}"),
            ("the same key twice", #"{"a":1,"a":1}"#), ("the same key in two spellings", #"{"b":1,"\u0062":2}"#),
            ("two kinds in an array", #"{"a":[1,"b"]}"#), ("an integer and a double", #"{"a":[1,2.0]}"#), ("null", #"{"a":null}"#),
            ("an unknown tag", #"{"a":{"$foo":1}}"#), ("a tag that does not stand alone", #"{"a":{"$int":"1","b":2}}"#),
            ("a number as $int", #"{"a":{"$int":7}}"#), ("a sign in $int", #"{"a":{"$int":"+5"}}"#),
            ("a text as $date", #"{"a":{"$date":"now"}}"#),
            ("base64 with bits set that are not used", #"{"a":{"$data":"QR=="}}"#), ("a zero in front", #"{"a":01}"#),
            ("half a pair", #"{"a":"\ud800"}"#),
            ("an integer beyond 64 bits", #"{"a":18446744073709551616}"#), ("a number beyond a double", #"{"a":1e999}"#),
            ("a control character", "{\"a\":\"\n\"}"),
        ]
        return ValueVectors(
            valid: try valid.map { .init(name: $0, json: try $1.json(), cbor: hex(try $1.encodedBytes())) },
            refusedCBOR: try refusedCBOR.map { name, cbor in
                .init(name: name, cbor: cbor, error: try #require(vectorError { _ = try ValueSet(decoding: hex(cbor)) }, "\(name)"))
            },
            refusedJSON: try refusedJSON.map { name, json in
                .init(name: name, json: json, error: try #require(vectorError { _ = try ValueSet(json: json) }, "\(name)"))
            }
        )
    }

    // MARK: DPoP

    func proofs() throws -> DPoPVectors {
        let key = try keys.signing("phone.identity")
        let url = "https://relay.example/auth/token"
        let jwk = JSONWebKey(key.publicKey)
        func make(_ header: String? = nil, _ claims: String, signer: String = "phone.identity") throws -> (
            header: String, claims: String, proof: String
        ) {
            let header =
                header
                ?? #"{"alg":"ES256","jwk":{"crv":"P-256","kty":"EC","x":"\#(jwk.x ?? "")","y":"\#(jwk.y ?? "")"},"typ":"dpop+jwt"}"#
            let signed = Base64.url.encode(header.utf8) + "." + Base64.url.encode(claims.utf8)
            return (header, claims, signed + "." + Base64.url.encode(try keys.signing(signer).signature(for: Array(signed.utf8))))
        }
        let seconds = time / 1_000
        func claims(jti: String = "AQIDBAUGBwgJCgsMDQ4PEA", htm: String = "POST", htu: String? = nil, iat: Int64? = nil, more: String = "")
            -> String
        {
            #"{"htm":"\#(htm)","htu":"\#(htu ?? url)","iat":\#(iat ?? seconds),"jti":"\#(jti)"\#(more)}"#
        }
        let token = "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl"
        // SHA-256 of the token's text.
        let hash = Base64.url.encode(Digest256(hashing: Array(token.utf8)).bytes)
        let invitations = "https://relay.example/auth/invitations"
        let valid: [(String, String, String?, String)] = [
            ("for the token endpoint", url, nil, claims()),
            ("with an access token", invitations, token, claims(htu: invitations, more: #","ath":"\#(hash)""#)),
            ("60 s behind", url, nil, claims(iat: seconds - 60)),
        ]
        let whole = try make(nil, claims()).proof
        let parts = whole.split(separator: ".").map(String.init)
        let other = try make(nil, claims(), signer: "other.identity").proof
        let refused: [(String, String?, String)] = [
            ("signed by another key than its own", nil, other),
            ("a claim that was changed", nil, "\(parts[0]).\(Base64.url.encode(claims(htm: "GET").utf8)).\(parts[2])"),
            ("for another method", nil, try make(nil, claims(htm: "GET")).proof),
            ("for another address", nil, try make(nil, claims(htu: "https://other.example/auth/token")).proof),
            ("for an address in capitals", nil, try make(nil, claims(htu: "https://RELAY.example/auth/token")).proof),
            ("61 s ahead", nil, try make(nil, claims(iat: seconds + 61)).proof),
            ("without an id", nil, try make(nil, claims(jti: "")).proof),
            ("without the hash of the access token", token, try make(nil, claims()).proof),
            (
                "with the hash of another one", token,
                try make(nil, claims(more: #","ath":"\#(Base64.url.encode(Digest256(hashing: []).bytes))""#)).proof
            ),
            (
                "of another type", nil,
                try make(
                    #"{"alg":"ES256","jwk":{"crv":"P-256","kty":"EC","x":"\#(jwk.x ?? "")","y":"\#(jwk.y ?? "")"},"typ":"jwt"}"#,
                    claims()
                ).proof
            ),
            ("without a signature", nil, "\(parts[0]).\(parts[1])."),
            ("in four parts", nil, whole + ".AA"),
            ("with padding", nil, whole + "="),
        ]
        return DPoPVectors(
            valid: try valid.map { name, url, token, claims in
                let made = try make(nil, claims)
                return .init(
                    name: name,
                    signer: "phone.identity",
                    thumbprint: key.publicKey.jwkThumbprint,
                    method: "POST",
                    url: url,
                    time: time,
                    accessToken: token,
                    header: made.header,
                    claims: made.claims,
                    proof: made.proof
                )
            },
            refused: try refused.map { name, token, proof in
                let error = vectorError {
                    _ = try DPoPProof(checking: proof, method: "POST", urls: [url], now: Milliseconds(clamping: time), accessToken: token)
                }
                return .init(
                    name: name,
                    method: "POST",
                    url: url,
                    time: time,
                    accessToken: token,
                    proof: proof,
                    error: try #require(error, "\(name)")
                )
            }
        )
    }
}
