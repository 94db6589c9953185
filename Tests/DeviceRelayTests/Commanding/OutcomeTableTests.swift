// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// The documentation's table of outcomes matches the code.
@Suite struct OutcomeTableTests {
    private func rows() throws -> [String: [String]] {
        let article = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/DeviceRelay/Documentation.docc/LaunchingURIs.md")
        let lines = try String(contentsOf: article, encoding: .utf8).split(separator: "\n").filter { $0.hasPrefix("| ") }
        let cells = lines.map { $0.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) } }
        return Dictionary(uniqueKeysWithValues: cells.filter { $0.count == 6 }.map { ($0[0], $0) })
    }

    @Test(arguments: [
        ("declined", CommandOutcome.declined), ("unsupported", .unsupported), ("failed", .failed(reason: "x")), ("expired", .expired),
        ("cancelled", .cancelled), ("indeterminate: interrupted, timedOut, forgotten", .indeterminate(.interrupted)),
        ("indeterminate: interrupted, timedOut, forgotten", .indeterminate(.timedOut)),
        ("indeterminate: interrupted, timedOut, forgotten", .indeterminate(.forgotten)),
        ("indeterminate: targetLost", .indeterminate(.targetLost)),
    ])
    func documentedErrorMatchesTheOutcome(name: String, outcome: CommandOutcome) throws {
        let row = try #require(try rows()[name])
        #expect(row[3] == RemoteLaunchError(.outcome(outcome)).code.description)
        #expect(row[1].contains("relay") == outcome.canBeAttestedByRelay)
        #expect(!RemoteLaunchError(.outcome(outcome)).message.isEmpty)
    }

    @Test func openCommandIsPending() throws {
        #expect(try rows()["none yet"]?.contains(RemoteLaunchError(.pending).code.description) == true)
        // The heads and the rule beside them.
        #expect(try rows().count == 11)
    }
}
