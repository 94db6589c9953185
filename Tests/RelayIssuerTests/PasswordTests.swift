// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

@Suite struct PasswordTests {
    let cost = PasswordHash.Cost(logRounds: 4)

    @Test func hashMatchesItsPasswordOnly() throws {
        let hash = PasswordHash(Secret("correct horse battery"), cost: cost)
        #expect(hash.matches(Secret("correct horse battery")))
        for other in ["correct horse batterz", "correct horse battery ", "", "c"] { #expect(!hash.matches(Secret(other)), "\(other)") }
        #expect(PasswordHash(Secret("correct horse battery"), cost: cost).salt != hash.salt)
        let read = try #require(PasswordHash(parsing: hash.text))
        #expect(read == hash && read.matches(Secret("correct horse battery")))
        #expect(hash.text.hasPrefix("$scrypt$ln=4,r=8,p=1$") && !hash.text.contains("=" + "="))
        #expect(PasswordHash.Cost().text == "ln=17,r=8,p=1")
    }

    @Test func damagedHashTextIsRejected() {
        let text = PasswordHash(Secret("correct horse battery"), cost: cost).text
        let damaged = [
            "", "$", "scrypt", text + "$", String(text.dropLast()), text.replacing("scrypt", with: "bcrypt"),
            text.replacing("ln=4", with: "ln=40"), text.replacing("r=8", with: "r=99999"), text.replacing("p=1", with: "p=0"),
            text.replacing("p=1", with: "p=1,q=1"), text.replacing("ln=4,", with: ""),
        ]
        for text in damaged { #expect(PasswordHash(parsing: text) == nil, "\(text)") }
    }

    @Test func easyPasswordsAreRejected() {
        for text in ["", "short", "aaaaaaaaaaaa", "Ada Lovelace", "abababababab", String(repeating: "longer", count: 60)] {
            #expect(PasswordRule.objection(to: Secret(text), name: "ada lovelace") != nil, "\(text)")
        }
        #expect(PasswordRule.objection(to: Secret("correct horse"), name: "Ada") == nil)
        #expect(PasswordRule.objection(to: Secret("pässwörter und ß"), name: "Ada") == nil)
    }

    /// Keyboards and systems write the same characters in different ways.
    @Test func passwordIsComparedInNormalForm() {
        let written = "pa\u{308}sswo\u{308}rter\u{A0}und mehr"
        let typed = "p\u{E4}ssw\u{F6}rter und\u{3000}mehr"
        #expect(PasswordHash(Secret(written), cost: cost).matches(Secret(typed)))
        #expect(PasswordHash(Secret(typed), cost: cost).matches(Secret(written)))
        // No further characters are equal: neither those that only look alike, nor other cases.
        for other in [typed.uppercased(), typed.replacing(" ", with: "  ")] {
            #expect(!PasswordHash(Secret(typed), cost: cost).matches(Secret(other)))
        }
        #expect(!PasswordHash(Secret("\u{FB01}ve words of one"), cost: cost).matches(Secret("five words of one")))
        for text in ["correct\u{7}horse battery", "correct horse\nbattery", "correct horse battery\u{85}"] {
            #expect(PasswordRule.objection(to: Secret(text), name: "Ada") != nil)
        }
    }

    /// Decomposed, the syllables have three times as many bytes as stored.
    @Test func passwordCountsAsItIsStored() {
        let syllables = (0..<10).compactMap { Unicode.Scalar(0xAC01 + $0) }.map { String($0).decomposedStringWithCanonicalMapping }.joined()
        let long = Secret(String(repeating: syllables, count: 3))
        #expect(long.exposed.utf8.count > PasswordRule.maximumBytes)
        #expect(PasswordRule.objection(to: long, name: "Ada") == nil)
        #expect(PasswordRule.hasAllowedLength(long))
        #expect(!PasswordRule.hasAllowedLength(Secret(String(repeating: "a", count: PasswordRule.maximumBytes + 1))))
        #expect(!PasswordRule.hasAllowedLength(Secret("")))
    }

    @Test func runningAndWaitingHashesAreBounded() {
        var queue = PasswordHasher.Queue<Int>(running: 2, places: 4, placesPerClient: 3)
        let (a, b, c) = (PasswordHasher.Client(name: "a"), PasswordHasher.Client(name: "b"), PasswordHasher.Client(name: "c"))
        for isStarted in [true, true, false] { #expect(queue.start(a) == isStarted) }
        queue.wait(1, of: a)
        #expect(queue.start(a) == nil)
        #expect(queue.start(b) == false)
        queue.wait(2, of: b)
        #expect(queue.start(c) == nil)
        #expect(queue.leave(a) == 1)
        #expect(queue.leave(a) == 2)
        #expect(queue.leave(a) == nil)
        #expect(queue.leave(b) == nil)
        #expect(queue.start(c) == true)
    }

    @Test func placeOfAHashThatDoesNotBeginIsFree() {
        var queue = PasswordHasher.Queue<Int>(running: 1, places: 2, placesPerClient: 1)
        let (a, b) = (PasswordHasher.Client(name: "a"), PasswordHasher.Client(name: "b"))
        #expect(queue.start(a) == true)
        for isFree in [true, false] { #expect(queue.enter(b) == isFree) }
        queue.leaveUnused(b)
        #expect(queue.start(b) == false)
        queue.wait(1, of: b)
        #expect(queue.leave(a) == 1)
        #expect(queue.leave(b) == nil)
    }

    /// Who has no place is not asked for, and who is not admitted takes none.
    @Test func placeIsTakenByAnAdmittedHashOnly() async throws {
        let hasher = PasswordHasher(cost: cost, queue: .init(running: 1, places: 1, placesPerClient: 1))
        let client = PasswordHasher.Client(name: "a")
        let refusal = OAuthError.tooManyAttempts(7)
        for _ in 0..<2 {
            await #expect(throws: PasswordHasher.Rejection.refused(refusal)) {
                try await hasher.run(client, admit: { () async throws(OAuthError) in throw refusal }) {}
            }
        }
        let other: () async throws(OAuthError) -> Void = {
            await #expect(throws: PasswordHasher.Rejection.busy) {
                try await hasher.run(client, admit: { () async throws(OAuthError) in Issue.record("it has no place") }) {}
            }
        }
        try await hasher.run(client, admit: other) {}
        try await hasher.run(client) {}
    }

    @Test func twoPasswordsAreHashedAtATime() async throws {
        let hasher = PasswordHasher(cost: cost, queue: .init(running: 2, places: 100, placesPerClient: 100))
        let counts = Counts()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try await hasher.run(.init(name: "a")) {
                        counts.enter()
                        _ = PasswordHash(Secret("correct horse battery"), cost: .init(logRounds: 6))
                        counts.leave()
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect((1...2).contains(counts.most))
    }

    /// The hashes end only after a task has run, while there are as many of them as Swift's tasks have threads.
    @Test func hashesDoNotOccupyTheThreadsOfTasks() async throws {
        let count = ProcessInfo.processInfo.activeProcessorCount
        let hasher = PasswordHasher(cost: cost, queue: .init(running: count, places: count, placesPerClient: count))
        let ended = Flag()
        let (started, signal) = AsyncStream.makeStream(of: Void.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<count {
                group.addTask {
                    try await hasher.run(.init(name: "a")) {
                        signal.yield()
                        while !ended.isSet {}
                    }
                }
            }
            var running = 0
            for await _ in started {
                running += 1
                if running == count { break }
            }
            await Task.detached { ended.set() }.value
            try await group.waitForAll()
        }
        #expect(ended.isSet)
    }

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { value.load(ordering: .acquiring) }
        func set() { value.store(true, ordering: .releasing) }
    }

    private final class Counts: Sendable {
        private let counts = Mutex((now: 0, most: 0))
        var most: Int { counts.withLock { $0.most } }

        func enter() {
            counts.withLock {
                $0.now += 1
                $0.most = max($0.most, $0.now)
            }
        }

        func leave() { counts.withLock { $0.now -= 1 } }
    }

    /// Counts under a name.
    private struct Counter {
        var limit = AttemptLimit("kind", "name")
        var attempts: Attempts?

        mutating func attempt(now: Milliseconds) -> Milliseconds? {
            if let wait = limit.wait(after: attempts, now: now) { return wait }
            attempts = limit.adding(to: attempts, now: now)
            return nil
        }
    }

    @Test func failuresDoubleTheDelay() {
        var counter = Counter()
        for _ in 0..<AttemptLimit.free { #expect(counter.attempt(now: 1_000_000) == nil) }
        #expect(counter.attempt(now: 1_000_000) == 1_000)
        #expect(counter.attempt(now: 1_001_000) == nil)
        #expect(counter.attempt(now: 1_001_000) == 2_000)
        var now: Milliseconds = 1_003_000
        for _ in 0..<30 {
            #expect(counter.attempt(now: now) == nil)
            let wait = counter.attempt(now: now) ?? 0
            #expect(wait.count <= AttemptLimit.longestWait)
            now = Milliseconds(clamping: now.count + wait.count)
        }
        // A refused attempt does not lengthen the wait, and an hour later everything is forgotten.
        #expect(counter.attempt(now: Milliseconds(clamping: now.count + Attempts.memory)) == nil)
        #expect(counter.attempt(now: Milliseconds(clamping: now.count + Attempts.memory)) == nil)
        #expect(counter.attempts?.count == 2)
    }

    @Test func anHourHasANumberOfAttempts() {
        var counter = Counter(limit: AttemptLimit("kind", "name", .perHour(2)))
        #expect(counter.attempt(now: 1_000_000) == nil && counter.attempt(now: 2_000_000) == nil)
        #expect(counter.attempt(now: 2_000_000) == 2_600_000)
        #expect(counter.attempt(now: 4_599_999) == 1)
        #expect(counter.attempt(now: 4_600_000) == nil)
        #expect(counter.attempts == Attempts(count: 1, time: 4_600_000))
    }

    @Test func damagedAttemptsAreLimited() {
        let end = Milliseconds(clamping: Int64.max)
        for attempts in [Attempts(count: .max, time: 1_000_000), Attempts(count: .min, time: 1_000_000, blockedUntil: end)] {
            for rule in [AttemptLimit.Rule.growingWaits(free: 5), .perHour(2)] {
                let limit = AttemptLimit("kind", "name", rule)
                #expect((limit.wait(after: attempts, now: 1_000_000) ?? 0).count <= Attempts.memory)
                #expect(limit.adding(to: attempts, now: 1_000_000).count > 0)
            }
        }
    }

    /// A client sends the head of a request early and its form late, or the clock is set back.
    @Test(arguments: [1, 60_000, Attempts.memory - 1]) func anEarlierTimeForgetsNoFailure(by step: Int64) {
        let (now, earlier): (Milliseconds, Milliseconds) = (10_000_000, Milliseconds(clamping: 10_000_000 - step))
        var counter = Counter()
        for number in 0..<AttemptLimit.free { #expect(counter.attempt(now: number.isMultiple(of: 2) ? now : earlier) == nil) }
        let wait = counter.attempt(now: earlier)?.count ?? 0
        #expect((1...AttemptLimit.longestWait).contains(wait))
        var hourly = Counter(limit: AttemptLimit("kind", "name", .perHour(2)))
        #expect(hourly.attempt(now: now) == nil && hourly.attempt(now: earlier) == nil)
        #expect((1...Attempts.memory).contains(hourly.attempt(now: earlier)?.count ?? 0))
        #expect(hourly.attempt(now: now) != nil)
        var limiter = RateLimiter(perWindow: 2, capacity: 10, window: Attempts.memory)
        #expect(limiter.add("a", now: now) == nil && limiter.add("a", now: earlier) == nil)
        #expect((1...Attempts.memory).contains(limiter.add("a", now: earlier)?.count ?? 0))
        #expect(limiter.add("a", now: now) != nil)
    }

    @Test func browserHasAShortName() {
        let names = [
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36": "Chrome (Linux)",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36 Edg/156.0":
                "Edge (Windows)",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/604.1":
                "Safari (iPhone)",
            "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0": "Firefox (Android)",
            "Mozilla/5.0 (unknown)": "Mozilla/5.0 (unknown)", "curl/8.9": "curl/8.9", "a\u{202E}b": "a\u{FFFD}b", "": "",
        ]
        for (agent, name) in names { #expect(BrowserName.of(agent) == name) }
        #expect(BrowserName.of(String(repeating: "x", count: 1_000)).count == WebSession.maximumAgentCharacters)
    }

    @Test func interpolatedTextIsEscaped() {
        let name = "<script>alert('&\"')</script>\u{202E}"
        let html: HTML = "<p title=\"\(name)\">\(3) \(HTML("<b>x</b>"))</p>"
        #expect(html.text == "<p title=\"&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;\u{FFFD}\">3 <b>x</b></p>")
    }
}

extension PasswordHasher.Queue {
    /// Takes a place, and begins a hash.
    /// - Returns: `nil` if there is no place, `false` if the hash has to wait.
    mutating func start(_ client: PasswordHasher.Client) -> Bool? { enter(client) ? begin() : nil }
}
