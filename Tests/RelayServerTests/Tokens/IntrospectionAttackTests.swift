// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayServer

/// Clients that are not authenticated make the relay ask an issuer about invented tokens.
@Suite struct IntrospectionAttackTests {
    private let source = PlayedIntrospection()
    private let key = P256SigningKey().publicKey

    private func rejection(_ token: String, from address: String, _ verifier: TokenVerifier) async -> TokenError? {
        do throws(TokenFault) {
            _ = try await verifier.check(Secret(token), key: key, address: address)
            return nil
        } catch {
            return error.error
        }
    }

    @Test func floodOfOneAddressDelaysNoOther() async throws {
        let verifier = source.verifier()
        let bounds = QuestionQueue.Bounds()
        source.hold()
        let flood = bounds.share + bounds.waiting + 500
        try await withThrowingTaskGroup(of: (isFlood: Bool, TokenError?).self) { group in
            for number in 0..<flood { group.addTask { (true, await rejection("gone-\(number)", from: "attacker", verifier)) } }
            // Those that find no room are refused, and the others wait.
            for _ in 0..<400 {
                guard let (_, refused) = try await group.next() else { break }
                #expect(refused == .issuerUnavailable)
            }
            #expect(try await eventually { source.waiting == bounds.share })
            // 34 of 35 were refused, when the first 64 questions took all places.
            for number in 0..<35 { group.addTask { (false, await rejection("good-\(number)", from: "home \(number)", verifier)) } }
            #expect(try await eventually { source.asked.count { $0.hasPrefix("good") } == 35 })
            source.release()
            for try await (isFlood, refused) in group {
                #expect(isFlood ? refused == .revoked || refused == .issuerUnavailable : refused == nil)
            }
        }
    }

    /// Open channels, whose tokens are checked again, go before all others.
    @Test func knownTokenIsAskedAboutFirst() async throws {
        let verifier = source.verifier(bounds: .init(running: 1, share: 1, waiting: 10))
        #expect(await rejection("good", from: "home", verifier) == nil)
        source.now.withLock { $0 += 60_000 }
        source.hold()
        try await withThrowingTaskGroup(of: TokenError?.self) { group in
            group.addTask { await rejection("gone-0", from: "attacker 0", verifier) }
            #expect(try await eventually { source.waiting == 1 })
            for number in 1...10 { group.addTask { await rejection("gone-\(number)", from: "attacker \(number)", verifier) } }
            #expect(try await eventuallyWaiting(10, verifier))
            // One of the invented tokens is given up for it.
            group.addTask { await rejection("good", from: "home", verifier) }
            #expect(try await group.next() == .issuerUnavailable)
            source.releaseOne()
            #expect(try await group.next() == .revoked)
            #expect(try await eventually { source.waiting == 1 })
            #expect(Array(source.asked.suffix(1)) == ["good"])
            source.release()
            var letIn = 0
            for try await refused in group where refused == nil { letIn += 1 }
            #expect(letIn == 1)
        }
    }

    private func eventuallyWaiting(_ count: Int, _ verifier: TokenVerifier) async throws -> Bool {
        for _ in 0..<6_000 {
            if await verifier.waitingQuestions == count { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    /// The order against a model, with random inputs.
    @Test func queueKeepsItsBoundsAndSharesInAnyOrder() {
        let seed = UInt64.random(in: .min ... .max)
        var generator = SeededGenerator(seed: seed)
        let bounds = QuestionQueue.Bounds(running: 8, share: 3, waiting: 20)
        var queue = QuestionQueue(bounds: bounds)
        var (waiting, running): ([Digest256: (address: String, isKnown: Bool)], [Digest256: String]) = ([:], [:])
        for number in 0..<5_000 {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0, 1:
                let digest = Digest256(hashing: Array("\(number)".utf8))
                let address = "\(Int.random(in: 0..<6, using: &generator))"
                let isKnown = Int.random(in: 0..<4, using: &generator) == 0
                waiting[digest] = (address, isKnown)
                if let givenUp = queue.add(digest, from: address, isKnown: isKnown) {
                    let lost = waiting.removeValue(forKey: givenUp)
                    #expect(lost != nil, "seed \(seed)")
                    // A known token is given up only if no other waits.
                    #expect(lost?.isKnown != true || !waiting.values.contains { !$0.isKnown }, "seed \(seed)")
                }
            case 2:
                guard let digest = queue.next() else {
                    let mayBegin = waiting.values.contains { question in
                        running.count < bounds.running && running.values.count { $0 == question.address } < bounds.share
                    }
                    #expect(!mayBegin, "seed \(seed)")
                    continue
                }
                guard let begun = waiting.removeValue(forKey: digest) else {
                    Issue.record("an unknown question began, seed \(seed)")
                    return
                }
                running[digest] = begun.address
            default:
                guard let digest = running.keys.randomElement(using: &generator) else { continue }
                running[digest] = nil
                queue.ended(digest)
            }
            #expect(queue.waiting == waiting.count && queue.underWay == running.count, "seed \(seed)")
            #expect(running.count <= bounds.running && waiting.count <= bounds.waiting + bounds.running, "seed \(seed)")
            #expect(Dictionary(grouping: running.values) { $0 }.values.allSatisfy { $0.count <= bounds.share }, "seed \(seed)")
        }
    }
}
