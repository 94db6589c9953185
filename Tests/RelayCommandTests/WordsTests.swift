// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayAgent
import RelayProtocol
import RelayTesting
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
                #expect(!["unavailable", "available", "away"].contains { text.split(separator: " ").contains($0[...]) }, "\(text)")
                // One word for each state.
                #expect(text.hasPrefix("Online") == (state == .available), "\(text)")
                #expect(text.hasPrefix("Not known") == (state == .unknown), "\(text)")
                #expect(!text.utf8.contains(UInt8(ascii: "{")), "\(text)")
                #expect(text.count <= 48, "\(text)")
            }
        }
    }

    @Test func presenceSaysWhatItMeans() throws {
        let now = Date(timeIntervalSince1970: 1_000_000)
        func text(_ reason: Presence.Reason, isWakeable: Bool = false, expectedWithin: Milliseconds? = nil) -> String {
            let presence = Presence(.unavailable, reason, since: 999_880_000, expectedWithin: expectedWithin, isWakeable: isWakeable)
            return PresenceText.text(presence, now: now)
        }
        let began = Date(timeIntervalSince1970: 999_880)
        let time = LocalTime.short(began, now: now)
        #expect(text(.neverSeen) == "Not started yet")
        #expect(text(.shutdown) == "Switched off since \(time)")
        #expect(text(.lost) == "Offline since \(time)")
        #expect(text(.signedOut) == "Signed out since \(time)")
        #expect(text(.waking) == "Waking …, for 2 min")
        #expect(text(.suspended) == "Asleep until it is opened, for 2 min")
        #expect(text(.suspended, isWakeable: true) == "Asleep for 2 min, can be woken")
        #expect(text(.suspended, expectedWithin: 30_000) == "Asleep for 2 min, looks in every 30 s")
        // The day only on another one.
        #expect(try time.wholeMatch(of: Regex(#"(1970-01-12 )?\d\d:\d\d"#)) != nil, "\(time)")
        #expect(LocalTime.short(began, now: began + 7 * 86_400) == String(LocalTime.text(began).prefix(16)))
    }

    @Test func everyCodeOfATableHasWords() {
        let launch = ExitStatus.launching.map { "\($0.code)" } + ["stored", "accepted", "waking", "delivered", "succeeded"]
        for code in launch {
            #expect(StateText.Command(rawValue: code) != nil, "\(code)")
            // What a device says is no placeholder.
            let words = StateText.Command(status: code).text(on: "{reason}", "{name} is not TV")
            #expect(words.firstMatch(of: /[a-z][A-Z]/) == nil, "\(code): \(words)")
        }
        #expect(StateText.Command(status: "somethingNewer") == .failed)
        #expect(StateText.Command.deniedByRemoteSystem.text(on: "{reason}", "{name}") == "Declined on {reason}: {name}")
        for code in ExitStatus.connections.map({ "\($0.code)" }) + ["connected", "notSignedIn"] {
            let words = Words.connection(code)
            #expect(words.firstMatch(of: /[a-z][A-Z]/) == nil && words != "failed", "\(code): \(words)")
        }
    }

    private static let file = Project.root.appending(path: "Sources/ConsoleFiles/Web/i18n/en.json")

    /// The console's words are those of the command line. With `DEVICE_RELAY_WRITE_WORDS` the file gets them.
    @Test func consoleHasTheSameWords() throws {
        let present = try String(contentsOf: Self.file, encoding: .utf8)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        var lines = present.components(separatedBy: "\n")
        for area in Set(StateText.table.map { $0.key.prefix { $0 != "." } }) {
            let places = lines.indices.filter { lines[$0].hasPrefix("  \"\(area).") }
            // One block, within others.
            let first = try #require(places.first)
            #expect(places == Array(first..<(first + places.count)))
            lines.removeSubrange(first..<(first + places.count))
            let words = try StateText.table.filter { $0.key.hasPrefix("\(area).") }.map { row in
                "  \"\(row.key)\": \(String(decoding: try encoder.encode(row.text), as: UTF8.self)),"
            }
            lines.insert(contentsOf: words, at: first)
        }
        let wanted = lines.joined(separator: "\n")
        if ProcessInfo.processInfo.environment["DEVICE_RELAY_WRITE_WORDS"] != nil {
            try Data(wanted.utf8).write(to: Self.file)
        } else {
            #expect(present == wanted, "run this test with DEVICE_RELAY_WRITE_WORDS=1")
        }
        _ = try JSONDecoder().decode([String: String].self, from: Data(wanted.utf8))
    }

    /// What the API writes into the audit has a word in the console, which calls all else a failure.
    @Test func auditHasWords() throws {
        let words = try JSONDecoder().decode([String: String].self, from: Data(contentsOf: Self.file))
        let folder = Project.root.appending(path: "Sources/RelayAgent/HTTP/Routes")
        var found: Set<String> = []
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let text = try String(contentsOf: file, encoding: .utf8)
            let actions = text.matches(of: /(?:audited\(exchange|audit\([^,\n]+), "(?<word>[^"]+)"/).map { "action.\($0.word)" }
            let answers = text.matches(of: /answer: "(?<word>[a-z]+)"/).map { "answer.\($0.word)" }
            let results = text.matches(of: /exchange\.json\([^\n]*, "(?<word>[a-z]+)"\)\n/).map { "answer.\($0.word)" }
            found.formUnion(actions + answers + results)
        }
        #expect(found.count > 20, "\(found.sorted())")
        #expect(found.filter { words[$0] == nil } == [])
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
