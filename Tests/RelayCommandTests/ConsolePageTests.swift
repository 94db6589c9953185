// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// People use the local console in Chromium: with a real relay, the agent that serves the console, and another device.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(
        if: PythonScript.isAvailable && PythonScript.has("chromium") && PythonScript.has("chromedriver"),
        "needs Debian's packages chromium and chromium-driver; scripts/test sets DEVICE_RELAY_PYTHON"
    )
)
struct ConsolePageTests {
    /// What `console.py` needs.
    private struct Setup: Encodable {
        struct Device: Encodable {
            var environment: [String: String]
            var home: String

            init(_ device: TestDevice) { (environment, home) = (device.environment, device.home) }
        }

        var relay = Project.products.appending(path: "relay").path
        var folder: String
        var devices: [String: Device]
        var process: Int32
        var names: [String] = []
    }

    /// Plays a scene of `console.py`. `DEVICE_RELAY_SCREENSHOTS` names a folder that keeps the screenshots.
    private func play(_ scene: String, _ pair: AgentPair, names: [String] = []) async throws {
        let setup = Setup(
            folder: ProcessInfo.processInfo.environment["DEVICE_RELAY_SCREENSHOTS"] ?? pair.desk.directory.path,
            devices: ["desk": .init(pair.desk), "tv": .init(pair.tv)],
            process: pair.agent.id,
            names: names
        )
        let file = pair.desk.directory.appending(path: "setup.json")
        try JSONEncoder().encode(setup).write(to: file)
        #expect(try await PythonScript("console.py", [scene, file.path]).end() == 0)
    }

    /// The two devices know each other.
    private func pair() async throws -> AgentPair {
        let pair = try await AgentPair()
        try await approve(pair.tv, on: pair.desk)
        try await approve(pair.desk, on: pair.tv)
        return pair
    }

    private func approve(_ device: TestDevice, on other: TestDevice) async throws {
        let id = try #require(try await device.relay("whoami", "--json").json["device"] as? String)
        try #require(try await other.relay("approve", id).status == 0)
    }

    @Test func linkIsOpenedElsewhereInThreeClicksAndByTheKeyboard() async throws { try await play("launch", try await pair()) }

    @Test func everyViewFitsItsWindowAndIsForEverybody() async throws { try await play("views", try await pair()) }

    @Test func personAnswersWhatOtherDevicesAsk() async throws { try await play("asks", try await askingPair()) }

    @Test func manyTabsFollowTheAgent() async throws { try await play("tabs", try await askingPair()) }

    @Test func pageShowsWhatTheAgentSeldomAnswers() async throws { try await play("answers", try await pair()) }

    /// Desk asks before it opens a link, and writes it down.
    private func askingPair() async throws -> AgentPair {
        let pair = try await pair()
        let opened = pair.desk.directory.appending(path: "opened").path
        let command = try Settings.shell(#"printf '%s\n' "$2" >> "$1""#, opened)
        try pair.desk.setAgent("open: {schemes: [x-note], ask: [https], command: \(command)}")
        pair.agent.send(SIGHUP)
        _ = try await pair.agent.line { $0.contains(#""event":"reloaded""#) }
        return pair
    }

    @Test func languageIsThatOfItsReader() async throws { try await play("languages", try await pair()) }

    @Test func everyTextIsInTheCatalogueAndMayBeLong() async throws { try await play("words", try await askingPair()) }

    @Test func sessionEndsWithItsKeyItsPersonAndItsAgent() async throws { try await play("session", try await pair()) }

    @Test func namesAreTextAndNothingElse() async throws {
        let pair = try await pair()
        var hosts: [RelayProcess] = []
        for name in NotificationAttackTests.plainNames {
            let device = try await pair.account.device(named: name)
            hosts.append(try await device.host("--scheme", "https"))
            try await approve(device, on: pair.desk)
        }
        try await play("hostile", pair, names: NotificationAttackTests.plainNames)
        #expect(hosts.count == NotificationAttackTests.plainNames.count)
    }
}
