// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayAgent
import RelayProtocol
import Testing

/// People read words, and programs read codes.
@Suite struct WordsTests {
    private static let reasons: [Presence.Reason] = [
        .connected, .waking, .suspended, .signedOut, .shutdown, .lost, .neverSeen, .relayStarting, .relayUnreachable,
        .init(rawValue: "somethingNewer"),
    ]
    private static let states: [RemoteSystemStatus] = [.available, .unavailable, .unknown, .discoveringAvailability]

    @Test(arguments: states, reasons)
    func presenceHasNoCodes(state: RemoteSystemStatus, reason: Presence.Reason) {
        let now = Date(timeIntervalSince1970: 1_000_000)
        for isWakeable in [false, true] {
            for since in [nil, 999_000_000] as [Milliseconds?] {
                let text = PresenceText.text(Presence(state, reason, since: since, isWakeable: isWakeable), now: now)
                #expect(text.firstMatch(of: /[a-z][A-Z]/) == nil, "\(text)")
                #expect(!["unavailable", "available", "away", "off"].contains { text.split(separator: " ").contains($0[...]) }, "\(text)")
                // One word for each state.
                #expect(text.hasPrefix("connected") == (state == .available), "\(text)")
                #expect(text.hasPrefix("not known") == (state == .unknown || state == .discoveringAvailability), "\(text)")
                #expect(text.count <= 48, "\(text)")
            }
        }
    }

    @Test func presenceSaysWhatItMeans() {
        let now = Date(timeIntervalSince1970: 1_000_000)
        func text(_ reason: Presence.Reason, isWakeable: Bool = false, expectedWithin: Milliseconds? = nil) -> String {
            let presence = Presence(.unavailable, reason, since: 999_880_000, expectedWithin: expectedWithin, isWakeable: isWakeable)
            return PresenceText.text(presence, now: now)
        }
        #expect(text(.neverSeen) == "does not receive")
        #expect(text(.shutdown) == "shut down 2 min ago")
        #expect(text(.suspended, isWakeable: true) == "asleep for 2 min, can be woken")
        #expect(text(.suspended, expectedWithin: 30_000) == "asleep for 2 min, connects every 30 s")
    }

    @Test func everyCodeOfATableHasWords() {
        let launch = ExitStatus.launching.map { "\($0.code)" } + ["stored", "accepted", "waking", "delivered", "succeeded"]
        let failed: Set = ["failed", "unknown"]
        for code in launch {
            let words = Words.launch(code)
            #expect(words.firstMatch(of: /[a-z][A-Z]/) == nil && (words != "failed" || failed.contains(code)), "\(code): \(words)")
        }
        for code in ExitStatus.connections.map({ "\($0.code)" }) + ["connected", "notSignedIn"] {
            let words = Words.connection(code)
            #expect(words.firstMatch(of: /[a-z][A-Z]/) == nil && words != "failed", "\(code): \(words)")
        }
    }

    @Test func timesAreInTheZoneOfThePerson() throws {
        let text = LocalTime.text(Date(timeIntervalSince1970: 1_764_002_403))
        let match = try #require(text.wholeMatch(of: /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) ([+-])(\d\d):(\d\d)/))
        let sign = match.output.3 == "-" ? -1.0 : 1.0
        let offset = sign * (try #require(Double(match.output.4)) * 3_600 + #require(Double(match.output.5)) * 60)
        let utc = try Date("\(match.output.1)T\(match.output.2)Z", strategy: .iso8601)
        #expect(utc.timeIntervalSince1970 - offset == 1_764_002_403)
    }
}
