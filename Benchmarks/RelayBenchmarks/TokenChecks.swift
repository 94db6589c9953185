// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Crypto
import Foundation
import Logging
import RelayProtocol
import RelayServer

/// The relay's check of an access token that is bound to a key, alternately with the bare check of its ES256 signature. The signature is
/// the lower bound.
struct TokenChecks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "token-checks")

    @Option(help: "Rounds of both measurements.") var rounds = 11
    @Option(help: "Checks in a round.") var checks = 2_000

    func run() async throws {
        let issuer = "https://issuer.example"
        let (key, endpoint) = (P256SigningKey(), P256SigningKey())
        var jwk = JSONWebKey(key.publicKey)
        (jwk.kid, jwk.alg, jwk.use) = ("one", "ES256", "sig")
        let keys = FetchedKeys(JSONWebKeySet(keys: [jwk]))
        let now: Milliseconds = 1_700_000_000_000
        let verifier = TokenVerifier(
            issuers: [TrustedIssuer(key: issuer, urls: [issuer], audience: .exactly("relay"), check: .keys { keys })],
            now: { now },
            logger: Logger(label: "benchmark")
        )
        let header = #"{"alg":"ES256","typ":"at+jwt","kid":"one"}"#
        let claims = """
            {"iss":"\(issuer)","sub":"user","aud":"relay","exp":1700000900,"iat":1700000000,"client_id":"com.example.app","sid":"login",\
            "scope":"relay.device.read relay.device.register relay.command relay.push",\
            "cnf":{"jkt":"\(endpoint.publicKey.jwkThumbprint)"}}
            """
        let signed = Array((Base64.url.encode(header.utf8) + "." + Base64.url.encode(claims.utf8)).utf8)
        let signature = try key.signature(for: signed)
        let token = Secret(String(decoding: signed, as: UTF8.self) + "." + Base64.url.encode(signature))

        let publicKey = try P256.Signing.PublicKey(derRepresentation: key.publicKey.spki)
        let bareSignature = try P256.Signing.ECDSASignature(rawRepresentation: signature)
        let clock = ContinuousClock()
        var (bare, whole): ([Double], [Double]) = ([], [])
        for _ in 0..<rounds {
            bare.append(
                clock.measure {
                    for _ in 0..<checks where !publicKey.isValidSignature(bareSignature, for: signed) { fail("a signature does not hold") }
                } / .microseconds(checks)
            )
            whole.append(
                try await clock.measure {
                    for _ in 0..<checks { _ = try await verifier.verify(token, key: endpoint.publicKey) }
                } / .microseconds(checks)
            )
        }
        let medians = [bare, whole].map { $0.sorted()[$0.count / 2] }
        report(["signatureMicroseconds": medians[0], "tokenMicroseconds": medians[1], "ratio": medians[0] / medians[1]])
    }
}
