// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// Tokens that the relay introspects, with an issuer whose answers the test controls.
@Suite struct IntrospectionTests {
    /// Answers, or holds its answers back.
    private final class Source: Sendable {
        private struct State {
            var asked: [String] = []
            var isHeld = false
            var isDown = false
            var waiting: [CheckedContinuation<Void, Never>] = []
        }

        private let state = Mutex(State())
        let now = Mutex<Int64>(1_700_000_000_000)

        var asked: [String] { state.withLock { $0.asked } }
        var waiting: Int { state.withLock { $0.waiting.count } }

        func hold() { state.withLock { $0.isHeld = true } }
        func setDown(_ isDown: Bool) { state.withLock { $0.isDown = isDown } }

        func release() {
            let waiting = state.withLock { state in
                defer { (state.waiting, state.isHeld) = ([], false) }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }

        func answer(_ token: String) async throws -> IntrospectionAnswer {
            state.withLock { $0.asked.append(token) }
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    if state.isHeld { state.waiting.append(continuation) }
                    return !state.isHeld
                }
                if goesOn { continuation.resume() }
            }
            if state.withLock({ $0.isDown }) { throw IssuerHTTPClient.Failure.closed }
            let claims = #"{"active":true,"sub":"anna","aud":"relay","exp":1700000900,"scope":"relay.command"}"#
            return try IntrospectionAnswer(json: JSONValue(parsing: Array((token == "gone" ? #"{"active":false}"# : claims).utf8)))
        }
    }

    private let source = Source()
    private let key = P256SigningKey().publicKey

    private func verifier() -> TokenVerifier {
        let trusted = TrustedIssuer(
            key: "https://issuer.example",
            urls: ["https://issuer.example"],
            audience: .exactly("relay"),
            check: .introspection { [source] in try await source.answer($0.exposed) }
        )
        return TokenVerifier(
            issuers: [trusted],
            now: { [source] in Milliseconds(clamping: source.now.withLock { $0 }) },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    private func rejection(_ token: String, _ verifier: TokenVerifier) async -> TokenError? {
        do throws(TokenError) {
            _ = try await verifier.verify(Secret(token), key: key)
            return nil
        } catch {
            return error
        }
    }

    @Test func answersAreCached() async throws {
        let verifier = verifier()
        let verified = try await verifier.verify(Secret("good"), key: key)
        #expect(verified.identity == Identity(issuer: "https://issuer.example", subject: "anna"))
        #expect(verified.recheck == 1_700_000_060_000)
        #expect(await rejection("gone", verifier) == .revoked)
        source.now.withLock { $0 += 9_999 }
        for token in ["good", "gone"] { _ = await rejection(token, verifier) }
        #expect(source.asked == ["good", "gone"])
        source.now.withLock { $0 += 1 }
        for token in ["good", "gone"] { _ = await rejection(token, verifier) }
        #expect(source.asked == ["good", "gone", "gone"])
        source.now.withLock { $0 += 40_000 }
        #expect(await rejection("good", verifier) == nil)
        #expect(source.asked == ["good", "gone", "gone", "good"])
    }

    @Test func failuresAreNotCached() async {
        let verifier = verifier()
        source.setDown(true)
        for _ in 0..<2 { #expect(await rejection("good", verifier) == .issuerUnavailable) }
        source.setDown(false)
        #expect(await rejection("good", verifier) == nil)
        #expect(source.asked.count == 3)
    }

    @Test func concurrentChecksShareOneQuestion() async throws {
        let verifier = verifier()
        source.hold()
        try await withThrowingTaskGroup(of: TokenError?.self) { group in
            for _ in 0..<100 { group.addTask { await rejection("good", verifier) } }
            #expect(try await eventually { source.waiting == 1 })
            source.release()
            for try await rejection in group { #expect(rejection == nil) }
        }
        #expect(source.asked == ["good"])
    }

    /// New endpoints can cause introspection requests.
    @Test func questionsAreBounded() async throws {
        let verifier = verifier()
        source.hold()
        try await withThrowingTaskGroup(of: TokenError?.self) { group in
            for number in 0..<TokenVerifier.maximumQuestions { group.addTask { await rejection("good-\(number)", verifier) } }
            #expect(try await eventually { source.waiting == TokenVerifier.maximumQuestions })
            #expect(await rejection("one-more", verifier) == .issuerUnavailable)
            source.release()
            for try await rejection in group { #expect(rejection == nil) }
        }
        #expect(await rejection("one-more", verifier) == nil)
    }

    @Test(arguments: ["", "a b", "a\nb", "\u{E4}", String(repeating: "a", count: 20 << 10)])
    func malformedTokensAreNotSent(token: String) async {
        #expect(await rejection(token, verifier()) == .malformed)
        #expect(source.asked.isEmpty)
    }
}
