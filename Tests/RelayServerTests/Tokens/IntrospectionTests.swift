// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// Tokens that the relay introspects, with an issuer whose answers the test controls.
@Suite struct IntrospectionTests {
    private let source = PlayedIntrospection()
    private let key = P256SigningKey().publicKey

    private func verifier() -> TokenVerifier { source.verifier() }

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

    @Test(arguments: ["", "a b", "a\nb", "\u{E4}", String(repeating: "a", count: 20 << 10)])
    func malformedTokensAreNotSent(token: String) async {
        #expect(await rejection(token, verifier()) == .malformed)
        #expect(source.asked.isEmpty)
    }
}
