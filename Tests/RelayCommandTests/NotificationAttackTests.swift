// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent
@testable import RelayProtocol

/// New devices whose names and addresses attack the notification about them.
@Suite(.serialized, .timeLimit(.minutes(10))) struct NotificationAttackTests {
    /// Names that are markup, code or options, without a character that changes how they are shown.
    static let plainNames = [
        "<b>PC</b>", "<a href=\"https://evil.example\">Approve</a>", "PC & <img src='x'/>", "\\074b\\076PC", "\\n\\nwords: babab",
        "--action=approve=No", "-t0", "<img src=x onerror=hit=1>", "\"><script>hit=1</script>", "javascript:hit=1", "{name} ${1} $&",
        "__proto__", "'; rm -rf ~ #", "data:text/html,<script>hit=1</script>",
    ]

    @Test(
        arguments: plainNames + [
            "PC\n\nwords: babab-babab", "PC\u{1B}]0;x\u{07}", "\u{202E}CP", "PC\u{2028}words: babab",
            String(repeating: "e\u{301}\u{302}\u{303}", count: 64), String(repeating: "x", count: 100_000),
        ]
    )
    func nameCannotChangeTheNotification(name: String) throws {
        let endpoint = try NewDeviceQueueTests.endpoint(1, name: name, address: "<u>192.0.2.1</u>&#10;", inviter: name)
        let facts = NewDeviceText.facts(endpoint)
        #expect(facts.count == 4)
        #expect(facts.last == "words: \(endpoint.fingerprint)")
        #expect(facts.allSatisfy { DisplayText.isPlain($0) && $0.utf8.count < 700 })
        // Each text of others stands in quotes, which it cannot close.
        #expect(facts[0].hasPrefix("\"") && facts[2].hasPrefix("invited by \""))
        let body = NewDeviceText.escaped(facts.joined(separator: "\n"))
        #expect(!body.utf8.contains { "<>\"'\\".utf8.contains($0) })
        let rest = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#92;"].reduce(body) { $0.replacing($1, with: "") }
        #expect(!rest.utf8.contains(UInt8(ascii: "&")))
        #expect(body.utf8.count { $0 == UInt8(ascii: "\n") } == 3)
    }

    /// A real program in the place of `notify-send` records what it gets.
    @Test func nameReachesTheProgramAsOneEscapedArgument() async throws {
        let account = try await TestAccount()
        let desktop = try FakeDesktop(on: try await account.device(named: "TV"))
        let agent = try await desktop.agent()
        let evil = try await account.device(named: "PC --action=x $(touch /tmp/x) <b>\\074i\\076</b>")
        let notification = try await desktop.notification(0)
        #expect(
            notification.prefix(5).dropFirst() == [
                "--action=approve=Approve", "--action=refuse=Refuse", "--", "A new device is on your account",
            ]
        )
        let words = try #require(try await evil.relay("whoami", "--json").json["words"] as? String)
        let body = try #require(notification.dropFirst(5).first)
        #expect(
            body
                == "&quot;PC --action=x $(touch /tmp/x) &lt;b&gt;&#92;&#92;074i&#92;&#92;076&lt;/b&gt;&quot; (\(body.split(separator: "(").last ?? "")"
        )
        #expect(notification.contains("words: \(words)"))
        agent.send(SIGTERM)
        #expect(await agent.finish().status == 0)
        // The agent closes the notification when it ends.
        try await desktop.isClosed()
    }
}
