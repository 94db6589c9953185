// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
import Logging
import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// A simulated issuer that the relay trusts. It signs any claims.
final class PlayedIssuer: Sendable {
    let key = P256SigningKey()
    let endpoint = P256SigningKey()
    let url = "https://issuer.example/tenant"
    let now: Milliseconds = 1_700_000_000_000

    var keySet: JSONWebKeySet {
        var jwk = JSONWebKey(key.publicKey)
        jwk.kid = "one"
        jwk.alg = "ES256"
        jwk.use = "sig"
        return JSONWebKeySet(keys: [jwk])
    }

    var trusted: TrustedIssuer {
        let keySet = keySet
        return TrustedIssuer(key: url, urls: [url], audience: .exactly("relay"), check: .keys { FetchedKeys(keySet) })
    }

    /// Claims that are fine, with some replaced; JSON texts by name, an empty one leaves the claim out.
    func claims(_ changes: [String: String] = [:]) -> String {
        var claims = [
            "iss": "\"\(url)\"", "sub": "\"user\"", "aud": "\"relay\"", "exp": "1700000900", "iat": "1700000000",
            "client_id": "\"com.example.app\"", "scope": "\"relay.command relay.push\"",
        ]
        claims.merge(changes) { $1 }
        return "{" + claims.filter { !$0.value.isEmpty }.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
    }

    func token(
        header: String = #"{"alg":"ES256","typ":"at+jwt","kid":"one"}"#,
        _ changes: [String: String] = [:],
        signature: (([UInt8]) throws -> [UInt8])? = nil
    ) throws -> Secret<String> {
        let signed = Base64.url.encode(header.utf8) + "." + Base64.url.encode(claims(changes).utf8)
        let signature = try signature.map { try $0(Array(signed.utf8)) } ?? key.signature(for: Array(signed.utf8))
        return Secret(signed + "." + Base64.url.encode(signature))
    }

    func verify(_ token: Secret<String>, by trusted: TrustedIssuer? = nil, at time: Milliseconds? = nil) async throws(TokenError)
        -> VerifiedToken
    {
        let time = time ?? now
        let verifier = TokenVerifier(issuers: [trusted ?? self.trusted], now: { time }, logger: Logger(label: "test"))
        return try await verifier.verify(token, key: endpoint.publicKey)
    }
}

@Suite struct TokenVerifierTests {
    let issuer = PlayedIssuer()

    func refused(_ token: Secret<String>, by trusted: TrustedIssuer? = nil, at time: Milliseconds? = nil) async -> TokenError? {
        do throws(TokenError) {
            _ = try await issuer.verify(token, by: trusted, at: time)
            return nil
        } catch {
            return error
        }
    }

    @Test func validTokenGivesIdentityAndScopes() async throws {
        let token = try await issuer.verify(issuer.token(["sid": "\"login\""]))
        #expect(token.identity == Identity(issuer: issuer.url, subject: "user"))
        #expect(token.expires == 1_700_000_900_000)
        #expect(token.scopes == ["relay.command", "relay.push"])
        #expect(token.client == "com.example.app")
        #expect(token.session == "login")
        #expect(token.mayMakeAccount)
    }

    @Test(arguments: ["none", "None", "NONE", "HS256", "HS384", "HS512", "ES512", "RS1", "ES256K", "", "es256"])
    func otherAlgorithmIsRejected(algorithm: String) async throws {
        let header = #"{"alg":"\#(algorithm)","typ":"at+jwt","kid":"one"}"#
        for signature: ([UInt8]) throws -> [UInt8] in [{ _ in [] }, { try issuer.key.signature(for: $0) }] {
            #expect(await refused(try issuer.token(header: header, signature: signature)) == .algorithm)
        }
    }

    @Test func macUnderThePublicKeyIsRejected() async throws {
        let published = String(decoding: try JSONEncoder().encode(issuer.keySet), as: UTF8.self)
        for secret in [issuer.key.publicKey.spki, Array(issuer.key.publicKey.spki.suffix(65)), Array(published.utf8)] {
            let token = try issuer.token(header: #"{"alg":"HS256","typ":"at+jwt","kid":"one"}"#) { message in
                Array(HMAC<SHA256>.authenticationCode(for: message, using: SymmetricKey(data: secret)))
            }
            #expect(await refused(token) == .algorithm)
        }
    }

    @Test func emptyOrForeignSignatureIsRejected() async throws {
        let other = P256SigningKey()
        let zero = [UInt8](repeating: 0, count: 64)
        for signature: ([UInt8]) throws -> [UInt8] in [
            { _ in [] }, { _ in zero }, { try other.signature(for: $0) }, { Array($0.prefix(64)) },
        ] {
            #expect(await refused(try issuer.token(signature: signature)) == .signature)
        }
    }

    @Test func otherAudienceIsRejected() async throws {
        for audience in ["", "\"other\"", "[]", #"["relay","other"]"#, "7", "\"Relay\""] {
            #expect(await refused(try issuer.token(["aud": audience])) == .audience, "\(audience)")
        }
        #expect(await refused(try issuer.token(["aud": #"["relay"]"#])) == nil)
    }

    @Test func eachIssuerHasItsOwnAudienceRule() async throws {
        var trusted = issuer.trusted
        trusted.audience = .anyOf(["one", "relay"])
        #expect(await refused(try issuer.token(["aud": #"["relay","other"]"#]), by: trusted) == nil)
        #expect(await refused(try issuer.token(["aud": "\"other\""]), by: trusted) == .audience)
        trusted.audience = .scope("relay.command")
        #expect(await refused(try issuer.token(["aud": "\"other\""]), by: trusted) == nil)
        #expect(await refused(try issuer.token(["aud": "\"relay.command x\"", "scope": ""]), by: trusted) == nil)
        #expect(await refused(try issuer.token(["scope": "\"relay.commander\""]), by: trusted) == .audience)
    }

    @Test func otherIssuerIsRejected() async throws {
        for url in ["", "\"https://issuer.example\"", "\"https://issuer.example/tenant/\"", "\"https://issuer.example/Tenant\"", "7", "[]"]
        {
            #expect(await refused(try issuer.token(["iss": url])) == .unknownIssuer, "\(url)")
        }
    }

    @Test func anIssuerCannotSignForAnother() async throws {
        let other = PlayedIssuer()
        var foreign = other.trusted
        foreign.key = "other"
        foreign.urls = ["https://other.example"]
        let verifier = TokenVerifier(issuers: [issuer.trusted, foreign], now: { 1_700_000_000_000 }, logger: Logger(label: "test"))
        let token = try issuer.token { try other.key.signature(for: $0) }
        await #expect(throws: TokenError.signature) { try await verifier.verify(token, key: issuer.endpoint.publicKey) }
    }

    @Test func unknownKeyIDIsRejected() async throws {
        for kid in ["\"two\"", "\"\"", "\"ONE\""] {
            #expect(await refused(try issuer.token(header: #"{"alg":"ES256","typ":"at+jwt","kid":\#(kid)}"#)) == .unknownKey)
        }
        #expect(await refused(try issuer.token(header: #"{"alg":"ES256","typ":"at+jwt","kid":7}"#)) == .malformed)
    }

    @Test func keyIDOfAnUnsuitableKeyIsRejected() async throws {
        // The id is of a key that is there, but of another kind than the algorithm's, or of another issuer's use.
        let p384 = P384.Signing.PrivateKey()
        let point = Array(p384.publicKey.rawRepresentation)
        let big = JSONWebKey(
            kty: "EC",
            kid: "big",
            crv: "P-384",
            x: Base64.url.encode(point.prefix(48)),
            y: Base64.url.encode(point.suffix(48))
        )
        var encryption = JSONWebKey(issuer.key.publicKey)
        encryption.kid = "enc"
        encryption.use = "enc"
        let keys = JSONWebKeySet(keys: issuer.keySet.keys + [big, encryption])
        var trusted = issuer.trusted
        trusted.check = .keys { FetchedKeys(keys) }
        for kid in ["big", "enc"] {
            #expect(await refused(try issuer.token(header: #"{"alg":"ES256","typ":"at+jwt","kid":"\#(kid)"}"#), by: trusted) == .unknownKey)
        }
        let header = #"{"alg":"ES384","typ":"at+jwt","kid":"one"}"#
        let confused = try issuer.token(header: header) { Array(try p384.signature(for: $0).rawRepresentation) }
        #expect(await refused(confused, by: trusted) == .unknownKey)
        #expect(await refused(try issuer.token(header: #"{"alg":"RS256","typ":"at+jwt","kid":"one"}"#), by: trusted) == .unknownKey)
    }

    @Test func tokenWithoutAKeyIDNeedsASingleKey() async throws {
        let header = #"{"alg":"ES256","typ":"at+jwt"}"#
        #expect(await refused(try issuer.token(header: header)) == nil)
        let keys = JSONWebKeySet(keys: issuer.keySet.keys + [JSONWebKey(P256SigningKey().publicKey)])
        var trusted = issuer.trusted
        trusted.check = .keys { FetchedKeys(keys) }
        #expect(await refused(try issuer.token(header: header), by: trusted) == .unknownKey)
    }

    @Test func keyInTheTokenItselfIsIgnored() async throws {
        let own = P256SigningKey()
        let jwk = String(decoding: try JSONEncoder().encode(JSONWebKey(own.publicKey)), as: UTF8.self)
        let header = #"{"alg":"ES256","typ":"at+jwt","kid":"one","jwk":\#(jwk),"jku":"https://evil.example"}"#
        #expect(await refused(try issuer.token(header: header) { try own.signature(for: $0) }) == .signature)
    }

    @Test func tokenOfAnotherTypeIsRejected() async throws {
        for header in [
            #"{"alg":"ES256","typ":"JWT","kid":"one"}"#, #"{"alg":"ES256","kid":"one"}"#, #"{"alg":"ES256","typ":"dpop+jwt","kid":"one"}"#,
        ] {
            #expect(await refused(try issuer.token(header: header)) == .type)
        }
        var relaxed = issuer.trusted
        relaxed.typeCheck = .relaxed
        #expect(await refused(try issuer.token(header: #"{"alg":"ES256","typ":"JWT","kid":"one"}"#), by: relaxed) == nil)
        #expect(await refused(try issuer.token(header: #"{"alg":"ES256","kid":"one"}"#), by: relaxed) == nil)
        #expect(await refused(try issuer.token(header: #"{"alg":"ES256","typ":"dpop+jwt","kid":"one"}"#), by: relaxed) == .type)
    }

    @Test func timesAreCheckedWithALeewayOfOneMinute() async throws {
        let token = try issuer.token()
        #expect(await refused(token, at: 1_700_000_959_999) == nil)
        #expect(await refused(token, at: 1_700_000_960_000) == .expired)
        #expect(await refused(token, at: 1_699_999_940_000) == nil)
        #expect(await refused(token, at: 1_699_999_939_999) == .notYetValid)
        #expect(await refused(try issuer.token(["nbf": "1700000060"])) == nil)
        #expect(await refused(try issuer.token(["nbf": "1700000061"])) == .notYetValid)
        #expect(await refused(try issuer.token(["nbf": "1700000060.5"])) == .notYetValid)
    }

    @Test(arguments: [
        ["exp": ""], ["exp": "\"1700000900\""], ["exp": "1e400"], ["exp": "-1"], ["exp": "null"], ["nbf": "\"x\""], ["nbf": "[]"],
        ["sub": ""],
        ["sub": "\"\""], ["sub": "7"], ["sub": "\"\(String(repeating: "s", count: 256))\""],
    ])
    func invalidClaimIsRejected(changes: [String: String]) async throws {
        let error = await refused(try issuer.token(changes))
        #expect(error == .claims || error == .malformed)
    }

    @Test func tokenOfAnUnlistedClientIsRejected() async throws {
        var trusted = issuer.trusted
        trusted.allowedClients = ["com.example.app"]
        #expect(await refused(try issuer.token(), by: trusted) == nil)
        #expect(await refused(try issuer.token(["client_id": "", "azp": "\"com.example.app\""]), by: trusted) == nil)
        #expect(await refused(try issuer.token(["client_id": "\"com.example.other\""]), by: trusted) == .client)
        #expect(await refused(try issuer.token(["client_id": ""]), by: trusted) == .client)
    }

    @Test func tokenBoundToAnotherKeyIsRejected() async throws {
        let own = issuer.endpoint.publicKey.jwkThumbprint
        let other = P256SigningKey().publicKey.jwkThumbprint
        #expect(await refused(try issuer.token(["cnf": #"{"jkt":"\#(own)"}"#])) == nil)
        #expect(await refused(try issuer.token(["cnf": #"{"jkt":"\#(other)"}"#])) == .boundToOtherKey)
        for binding in [#"{"x5t#S256":"abc"}"#, "{}", "[]", "null", "\"\(own)\"", #"{"jkt":7}"#, #"{"jkt":"\#(own)","x5t#S256":"abc"}"#] {
            #expect(await refused(try issuer.token(["cnf": binding])) == .unknownBinding, "\(binding)")
        }
    }

    @Test func namesOfClaimsAreConfigurable() async throws {
        var trusted = issuer.trusted
        trusted.accountClaim = "oid"
        trusted.scopesClaim = "scp"
        let token = try await issuer.verify(issuer.token(["oid": "\"person\"", "scp": #"["a","b c"]"#]), by: trusted)
        #expect(token.identity.subject == "person")
        #expect(token.scopes == ["a", "b", "c"])
    }

    /// Swift finds them equal to others that have other bytes, and the database does not.
    @Test(arguments: ["u\u{73}e\u{301}r", "\u{212A}", "us er", "user\u{200D}", "user\u{37E}", "", String(repeating: "x", count: 256)])
    func subjectWithOtherCharactersThanVisibleASCIIIsRejected(subject: String) async throws {
        let text = String(decoding: try JSONEncoder().encode(subject), as: UTF8.self)
        #expect(await refused(try issuer.token(["sub": text])) == .claims)
    }

    @Test func canonicallyEquivalentAudienceIsRejected() async throws {
        var trusted = issuer.trusted
        trusted.audience = .anyOf(["K"])
        #expect(await refused(try issuer.token(["aud": #""K""#]), by: trusted) == nil)
        #expect(await refused(try issuer.token(["aud": #""\u212A""#]), by: trusted) == .audience)
    }

    @Test func malformedTokenIsRejected() async throws {
        let good = try issuer.token().exposed
        for text in [
            "", "..", "a.b.c", good + ".x", String(good.dropFirst()), good + "=", String(repeating: "x", count: 17 << 10),
            Base64.url.encode(String(repeating: "[", count: 5_000).utf8) + ".e30.", good.replacing(".", with: "\u{0}"),
        ] {
            #expect(await refused(Secret(text)) == .malformed)
        }
        let critical = #"{"alg":"ES256","typ":"at+jwt","kid":"one","crit":["exp"]}"#
        #expect(await refused(try issuer.token(header: critical)) == .malformed)
    }

    @Test func tokenOfARevokedLoginIsRejected() async throws {
        let verifier = TokenVerifier(issuers: [issuer.trusted], now: { 1_700_000_000_000 }, logger: Logger(label: "test"))
        let token = try issuer.token(["sid": "\"login\""])
        let key = issuer.endpoint.publicKey
        verifier.revoke(session: "login", of: "embedded", until: 1_700_001_000_000)
        _ = try await verifier.verify(token, key: key)
        verifier.revoke(session: "login", of: issuer.url, until: 1_700_001_000_000)
        await #expect(throws: TokenError.revoked) { try await verifier.verify(token, key: key) }
        _ = try await verifier.verify(issuer.token(["sid": "\"other\""]), key: key)
        _ = try await verifier.verify(issuer.token(), key: key)
    }

    /// The order of the group of P-256 (FIPS 186-5).
    static let order: [UInt8] = [
        0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        0xBC, 0xE6, 0xFA, 0xAD, 0xA7, 0x17, 0x9E, 0x84, 0xF3, 0xB9, 0xCA, 0xC2, 0xFC, 0x63, 0x25, 0x51,
    ]

    /// The other signature that holds for the same bytes: its second half is the order less the first one's.
    static func rewritten(_ signature: [UInt8]) -> [UInt8] {
        var (result, borrow) = (signature, 0)
        for index in (0..<32).reversed() {
            let difference = Int(order[index]) - Int(signature[32 + index]) - borrow
            result[32 + index] = UInt8(truncatingIfNeeded: difference)
            borrow = difference < 0 ? 1 : 0
        }
        return result
    }

    @Test func revokedTokenWithARewrittenSignatureIsRejected() async throws {
        let verifier = TokenVerifier(issuers: [issuer.trusted], now: { 1_700_000_000_000 }, logger: Logger(label: "test"))
        let token = try issuer.token().exposed
        let parsed = try SignedJSON(parsing: token)
        let signature = Self.rewritten(parsed.signature)
        let other = String(decoding: parsed.signed, as: UTF8.self) + "." + Base64.url.encode(signature)
        #expect(other != token && issuer.key.publicKey.isValid(signature, for: parsed.signed))
        _ = try await verifier.verify(Secret(other), key: issuer.endpoint.publicKey)
        verifier.revoke(Login(token: token), until: 1_700_001_000_000)
        for text in [token, other] {
            await #expect(throws: TokenError.revoked) { try await verifier.verify(Secret(text), key: issuer.endpoint.publicKey) }
        }
        // Another token of the same person counts.
        _ = try await verifier.verify(issuer.token(["jti": "\"two\""]), key: issuer.endpoint.publicKey)
    }

    @Test func textThatIsNoSignedTokenIsRevokedAsAWhole() throws {
        for (one, other) in [("opaque", "opaquf"), ("a.b.c", "a.b.d"), ("", "."), ("v2.public.one", "v2.public.two")] {
            #expect(Login(token: one) != Login(token: other))
        }
        let token = try issuer.token().exposed
        #expect(Login(token: token + ".") != Login(token: token))
        #expect(Login(token: token) != Login(token: try issuer.token(["sub": "\"other\""]).exposed))
    }

    @Test func followerIsNotifiedOnceOfALoginsRevocation() async throws {
        let verifier = TokenVerifier(issuers: [issuer.trusted], now: { 1_700_000_000_000 }, logger: Logger(label: "test"))
        let accepted = try await withCheckedContinuation { continuation in
            verifier.verify(
                token: (try? issuer.token(["sid": "\"login\""]).exposed) ?? "",
                endpointKey: issuer.endpoint.publicKey,
                address: ""
            ) {
                continuation.resume(returning: $0)
            }
        }.get()
        let login = try #require(accepted.login)
        let heard = Mutex<[String]>([])
        _ = verifier.follow(login) { heard.withLock { $0.append("followed") } }
        let gone = verifier.follow(login) { heard.withLock { $0.append("cancelled") } }
        _ = verifier.follow(Login(issuer: login.issuer, session: "other")) { heard.withLock { $0.append("other") } }
        gone.cancel()
        for _ in 0..<2 { verifier.revoke(session: "login", of: login.issuer, until: 1_700_001_000_000) }
        #expect(heard.withLock { $0 } == ["followed"])
        // Too late is at once.
        _ = verifier.follow(login) { heard.withLock { $0.append("late") } }
        #expect(heard.withLock { $0 } == ["followed", "late"])
    }

    @Test func revocationsAreBounded() {
        var logins = RevokedLogins(capacity: 3)
        func login(_ session: String) -> Login { Login(issuer: "a", session: session) }
        for index in 1...100 { logins.insert(login("\(index)"), until: Milliseconds(clamping: index * 10), now: 0) }
        #expect(logins.count == 3)
        #expect(logins.contains(login("98")) && logins.contains(login("100")) && !logins.contains(login("97")))
        logins.insert(login("later"), until: 2_000, now: 999)
        #expect(logins.count == 2)
        #expect(logins.contains(login("100")) && !logins.contains(login("99")))
    }

    @Test func deeplyNestedClaimsDoNotCrash() async throws {
        for depth in [10, 400, 5_000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let deep = String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
                let error = await refused(try issuer.token(["deep": deep]))
                #expect(error == nil || error == .malformed)
                #expect(await refused(try issuer.token(["cnf": deep])) != nil)
                #expect(await refused(try issuer.token(["sub": deep])) != nil)
            }
        }
    }

    @Test func everyListedAlgorithmWorks() async throws {
        let p384 = P384.Signing.PrivateKey()
        let ed = Curve25519.Signing.PrivateKey()
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let point = Array(p384.publicKey.rawRepresentation)
        let primitives = try rsa.publicKey.getKeyPrimitives()
        let keys = JSONWebKeySet(keys: [
            JSONWebKey(kty: "EC", kid: "e", crv: "P-384", x: Base64.url.encode(point.prefix(48)), y: Base64.url.encode(point.suffix(48))),
            JSONWebKey(kty: "OKP", kid: "o", crv: "Ed25519", x: Base64.url.encode(ed.publicKey.rawRepresentation)),
            JSONWebKey(
                kty: "RSA",
                kid: "r",
                n: Base64.url.encode(primitives.modulus),
                e: Base64.url.encode(primitives.publicExponent)
            ),
            JSONWebKey(kty: "later", kid: "x"),
        ])
        var trusted = issuer.trusted
        trusted.check = .keys { FetchedKeys(keys) }
        let cases: [(String, String, ([UInt8]) throws -> [UInt8])] = [
            ("ES384", "e", { Array(try p384.signature(for: $0).rawRepresentation) }),
            ("EdDSA", "o", { Array(try ed.signature(for: $0)) }),
            ("PS256", "r", { Array(try rsa.signature(for: $0, padding: .PSS).rawRepresentation) }),
            ("RS256", "r", { Array(try rsa.signature(for: $0, padding: .insecurePKCS1v1_5).rawRepresentation) }),
        ]
        for (algorithm, kid, signature) in cases {
            let header = #"{"alg":"\#(algorithm)","typ":"at+jwt","kid":"\#(kid)"}"#
            #expect(await refused(try issuer.token(header: header, signature: signature), by: trusted) == nil, "\(algorithm)")
            let changed = try issuer.token(header: header) { message in
                try signature(message).enumerated().map { $0.offset == 10 ? $0.element ^ 1 : $0.element }
            }
            #expect(await refused(changed, by: trusted) == .signature, "\(algorithm)")
        }
        // One padding does not pass for the other.
        let crossed = try issuer.token(header: #"{"alg":"RS256","typ":"at+jwt","kid":"r"}"#) {
            Array(try rsa.signature(for: $0, padding: .PSS).rawRepresentation)
        }
        #expect(await refused(crossed, by: trusted) == .signature)
    }

    @Test func everyErrorHasACodeAndAMessage() {
        #expect(TokenError.expired.rejected.code == .tokenExpired)
        #expect(TokenError.notYetValid.rejected.code == .tokenNotYetValid)
        #expect(TokenError.audience.rejected.code == .wrongAudience)
        #expect(TokenError.unknownIssuer.rejected.code == .wrongIssuer)
        #expect(TokenError.boundToOtherKey.rejected.code == .tokenBoundToOtherKey)
        #expect(TokenError.client.rejected.code == .clientNotAllowed)
        #expect(TokenError.issuerUnavailable.rejected.code == .issuerUnavailable)
        #expect(TokenError.issuerUnavailable.rejected.retryAfter == 30_000)
        for error in TokenError.allCases { #expect(error.message.hasSuffix(".")) }
    }
}
