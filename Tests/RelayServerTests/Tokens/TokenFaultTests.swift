// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayServer

/// What operator and user learn of a refused token.
@Suite struct TokenFaultTests {
    private let issuer = PlayedIssuer()

    private func refused(_ token: Secret<String>, _ trusted: TrustedIssuer? = nil, logger: Logger? = nil) async -> TokenRejection? {
        let now = issuer.now
        let verifier = TokenVerifier(
            issuers: [trusted ?? issuer.trusted],
            now: { now },
            logger: logger ?? Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        return await withCheckedContinuation { continuation in
            verifier.verify(token: token.exposed, endpointKey: issuer.endpoint.publicKey, address: "192.0.2.7/32") { result in
                if case .failure(let rejection) = result {
                    continuation.resume(returning: rejection)
                } else {
                    continuation.resume(returning: nil)
                }
            }
        }
    }

    /// Each cause has its own text for the user, and a line with the details for the operator.
    @Test func everyCauseIsNamed() async throws {
        let log = CapturedLog()
        let logger = Logger(label: "test") { _ in log }
        let header = { (name: String, value: String) in
            var members = ["alg": "ES256", "typ": "at+jwt", "kid": "one"]
            members[name] = value
            return "{" + members.map { "\"\($0.key)\":\"\($0.value)\"" }.joined(separator: ",") + "}"
        }
        var strict = issuer.trusted
        strict.allowedClients = ["com.example.other"]
        let cases: [(Secret<String>, TrustedIssuer?, text: String, line: [String])] = [
            (Secret("a.b"), nil, "not a signed", ["malformed"]),
            (try issuer.token(header: header("alg", "HS256")), nil, "alg", ["algorithm", "HS256"]),
            (try issuer.token(header: header("typ", "JWT")), nil, "typ has to be at+jwt", ["type", "at+jwt", "JWT", issuer.url]),
            (try issuer.token(header: header("kid", "two")), nil, "kid", ["unknownKey", "two"]),
            (try issuer.token(signature: { _ in [UInt8](repeating: 1, count: 64) }), nil, "signature", ["signature", issuer.url]),
            (try issuer.token(["iss": #""https://other.example""#]), nil, "iss", ["unknownIssuer", "https://other.example"]),
            (try issuer.token(["aud": #""other""#]), nil, "aud has to be relay", ["audience", "relay", "other"]),
            (try issuer.token(["sub": ""]), nil, "sub has to be", ["claims", "sub"]),
            (try issuer.token(["exp": #""x""#]), nil, "exp has to be a time", ["claims", "exp"]),
            (try issuer.token(["exp": "1"]), nil, "expired", ["expired", "exp"]),
            (try issuer.token(["nbf": "1800000000"]), nil, "nbf", ["notYetValid", "1800000000"]),
            (try issuer.token(), strict, "client", ["client", "com.example.app"]),
            (try issuer.token(["cnf": #"{"jkt":"x"}"#]), nil, "cnf", ["boundToOtherKey"]),
            (try issuer.token(["cnf": #"{"x5t":"x"}"#]), nil, "cnf", ["unknownBinding"]),
        ]
        var texts: Set<String> = []
        for (token, trusted, text, words) in cases {
            let count = log.lines.count
            let rejection = try #require(await refused(token, trusted, logger: logger))
            #expect(rejection.message.contains(text), "\(rejection.message)")
            #expect(!rejection.message.contains("other.example"), "the text repeats nothing of the token")
            texts.insert(rejection.message)
            let line = try #require(log.lines.dropFirst(count).first { $0.contains("refused a token") })
            for word in words + ["192.0.2.7"] { #expect(line.contains(word), "\(word) is not in \(line)") }
        }
        #expect(texts.count == cases.count)
    }

    /// Anyone may send tokens, so their texts are cleaned and the lines are limited.
    @Test func logIsLimitedAndCleaned() async throws {
        let log = CapturedLog()
        let time = Mutex<Milliseconds>(issuer.now)
        let verifier = TokenVerifier(
            issuers: [issuer.trusted],
            now: { time.withLock { $0 } },
            logger: Logger(label: "test") { _ in log }
        )
        func send(_ name: String) async throws {
            let token = try issuer.token(["iss": "\"\(name)\""])
            await withCheckedContinuation { continuation in
                verifier.verify(token: token.exposed, endpointKey: issuer.endpoint.publicKey, address: "a") { _ in continuation.resume() }
            }
        }
        let long = String(repeating: "x", count: 1_000)
        for number in 0..<50 { try await send(#"\u001b[31m\u202e\#(number)\#(long)"#) }
        #expect(log.lines.count == 1)
        #expect(log.lines.allSatisfy { line in line.unicodeScalars.allSatisfy { $0.isASCII && $0.value >= 0x20 || $0 == "…" } })
        #expect(log.lines[0].count < 600)
        time.withLock { $0 = Milliseconds(clamping: $0.count + 60_000) }
        try await send("again")
        #expect(log.lines.count == 2 && log.lines[1].contains("unlogged\": 49"), "\(log.lines)")
    }

    @Test func refusedCredentialsOfTheRelayAreNamed() async throws {
        let log = CapturedLog()
        var trusted = issuer.trusted
        trusted.check = .introspection { _ in throw IssuerHTTPClient.Failure.credentialsRefused }
        let now = issuer.now
        let verifier = TokenVerifier(issuers: [trusted], now: { now }, logger: Logger(label: "test") { _ in log })
        await verifier.checkIssuers()
        #expect(log.lines.count == 1)
        #expect(log.lines.first?.contains("refuses this relay's clientID or secret") ?? false)
        let rejection = try #require(await refused(Secret("opaque"), trusted))
        #expect(rejection.code == .issuerUnavailable && rejection.message.contains("Tell its operator"))
    }
}
