// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

/// One-time keys and sessions, at every age and in every order.
struct ConsoleAccessTests {
    private let start = ContinuousClock.now
    private func digest(_ text: String) -> Digest256 { Digest256(hashing: Array(text.utf8)) }

    private func exchange(_ access: inout ConsoleAccess, _ key: String, for session: String, at now: ContinuousClock.Instant)
        -> ConsoleAccess.Exchange
    {
        access.exchange(digest(key), for: (session, digest("token of \(session)")), at: now, date: Date(timeIntervalSince1970: 0))
    }

    /// Whether a key gives a session.
    private func begins(_ access: inout ConsoleAccess, _ key: String, for session: String, at now: ContinuousClock.Instant) -> Bool {
        if case .begun = exchange(&access, key, for: session, at: now) { true } else { false }
    }

    @Test func keyWorksOnceWithinItsMinute() {
        for (age, works) in [(0, true), (59, true), (60, false), (3_600, false)] {
            var access = ConsoleAccess()
            access.add(key: digest("k"), id: "K", at: start)
            let isBegun = begins(&access, "k", for: "A", at: start + .seconds(age))
            #expect(isBegun == works, "after \(age) s")
            #expect(access.state(ofKey: "K", at: start + .seconds(age)) == (works ? .used(session: "A") : .expired))
        }
    }

    @Test func secondUseEndsBoth() {
        var access = ConsoleAccess()
        access.add(key: digest("k"), id: "K", at: start)
        access.add(key: digest("other"), id: "O", at: start)
        let begun = [begins(&access, "other", for: "B", at: start), begins(&access, "k", for: "A", at: start)]
        #expect(begun == [true, true])
        for (second, session) in [(1, "C"), (2, "D")] {
            let again = exchange(&access, "k", for: session, at: start + .seconds(second))
            #expect(again == .usedTwice)
        }
        #expect(access.credential(digest("token of A"), at: start) == .endedByKey)
        #expect(access.credential(digest("token of C"), at: start) == .invalid)
        #expect(access.sessions(at: start).map(\.id) == ["B"], "the session of another key stays")
        #expect(access.state(ofKey: "K", at: start) == .usedTwice)
        #expect(access.hasWarning)
        access.warned()
        #expect(!access.hasWarning)
    }

    /// After its minute a key is forgotten, so what somebody finds later ends nothing.
    @Test func useAfterTheMinuteEndsNothing() {
        var access = ConsoleAccess()
        access.add(key: digest("k"), id: "K", at: start)
        let isBegun = begins(&access, "k", for: "A", at: start)
        #expect(isBegun)
        let late = exchange(&access, "k", for: "B", at: start + .seconds(60))
        #expect(late == .invalid)
        #expect(access.isLive("A", at: start + .seconds(60)))
    }

    @Test func sessionEndsByItselfAndByHand() {
        var access = ConsoleAccess()
        access.add(key: digest("k"), id: "K", at: start)
        let isBegun = begins(&access, "k", for: "A", at: start)
        #expect(isBegun)
        let last = start + ConsoleAccess.sessionLife
        #expect(access.isLive("A", at: last - .nanoseconds(1)))
        #expect(!access.isLive("A", at: last))
        #expect(access.credential(digest("token of A"), at: last) == .invalid)
        let ends = [access.end("A", at: start), access.end("A", at: start)]
        #expect(ends == [true, false])
        #expect(access.credential(digest("token of A"), at: start) == .invalid)
    }

    /// More keys and sessions than there may be: the newest count.
    @Test func numbersAreBounded() {
        var access = ConsoleAccess()
        for number in 0..<100 {
            access.add(key: digest("k\(number)"), id: "K\(number)", at: start)
            let isBegun = begins(&access, "k\(number)", for: "S\(number)", at: start)
            #expect(isBegun)
        }
        #expect(access.sessions(at: start).map(\.id) == (84..<100).map { "S\($0)" })
        #expect(access.state(ofKey: "K0", at: start) == .expired)
        #expect(access.state(ofKey: "K99", at: start) == .used(session: "S99"))
    }

    /// The page that hands the link to the browser has nothing that a text could break out of.
    @Test func pageOfTheLinkIsPlain() {
        let page = OpenConsole.page(leadingTo: "http://127.0.0.1:1/#key=abc")
        #expect(page.contains("content=\"0; url=http://127.0.0.1:1/#key=abc\""))
        #expect(!page.contains("<script"))
    }
}
