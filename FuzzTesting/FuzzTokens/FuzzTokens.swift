// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer

/// Reads arbitrary bytes as what clients and issuers send the relay about tokens: access tokens, DPoP proofs, key sets, and answers about
/// tokens. There must be no trap, and nothing may be accepted that is not what the rules say. The first byte selects what is read.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    switch start[0] % 4 {
    case 0: token(String(decoding: bytes, as: UTF8.self))
    case 1: proof(String(decoding: bytes, as: UTF8.self))
    case 2: keys(bytes)
    default: answer(bytes)
    }
    return 0
}

private let now: Milliseconds = 1_793_000_000_000
private let key = P256SigningKey().publicKey

private let rules: [TokenRules] = {
    let audiences: [TrustedIssuer.AudienceRule] = [.exactly("relay"), .anyOf(["relay", "other"]), .scope("relay.command")]
    return audiences.enumerated().map { number, audience in
        var issuer = TrustedIssuer(
            key: "https://issuer.example",
            urls: ["https://issuer.example"],
            audience: audience,
            check: .introspection { _ in throw TokenError.issuerUnavailable }
        )
        issuer.typeCheck = number == 0 ? .strict : .relaxed
        issuer.needsScopes = number == 1
        issuer.namesInviters = true
        issuer.allowedClients = number == 2 ? ["client"] : nil
        return TokenRules(issuer: issuer)
    }
}()

private func token(_ text: String) {
    guard let parsed = try? SignedJSON(parsing: text), let claims = try? parsed.claims(TokenClaims.self) else { return }
    for rules in rules {
        _ = try? rules.checkType(parsed.header)
        check(claims, by: rules)
    }
    guard Login(token: text) == Login(token: text + "") else { fatalError("a token has two names") }
}

private func check(_ claims: TokenClaims, by rules: TokenRules) {
    do throws(TokenFault) {
        let verified = try rules.check(claims, key: key, now: now)
        guard TokenRules.isSubject(verified.identity.subject) else { fatalError("no subject") }
        guard now.count < verified.expires.count + TokenRules.leeway else { fatalError("an expired token") }
    } catch {
        guard error.message.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { fatalError("the token's text is repeated") }
    }
}

private func proof(_ text: String) {
    let url = "https://relay.example/auth/token"
    guard let proof = try? DPoPProof(checking: text, method: "POST", urls: [url], now: now) else { return }
    guard proof.made.count <= proof.ends.count else { fatalError("it ends before it begins") }
}

private func keys(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes), let set = try? JSONWebKeySet(json: json) else { return }
    for jwk in set.keys {
        _ = jwk.signingKey?.jwkThumbprint
        guard let key = TokenKey(jwk) else { continue }
        for algorithm in TokenAlgorithm.allCases {
            guard !key.isValid(Array(bytes.prefix(64)), for: bytes, by: algorithm) else { fatalError("an invented signature is valid") }
            _ = key.fits(algorithm)
        }
    }
}

private func answer(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes) else { return }
    _ = try? IntrospectionAnswer(json: json)
    guard let claims = try? TokenClaims(json: json) else { return }
    for rules in rules { check(claims, by: rules) }
}
