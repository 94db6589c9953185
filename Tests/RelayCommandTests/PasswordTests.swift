// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Passwords at the terminal, at a relay that only its own key authenticates: no browser would accept its certificate.
@Suite(.serialized, .timeLimit(.minutes(10))) struct PasswordTests {
    static let password = "correct horse battery"
    static let other = "quite another thing"

    let relayd: RelaydProcess

    init() async throws {
        relayd = try await RelaydProcess(.ownCertificate)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
    }

    /// The address that `relay login` takes.
    private func address() async throws -> String {
        let invitation = try JSON.object(try await relayd.run("invite", "Anna", "--json"))
        return try #require(invitation["login"] as? String)
    }

    private func link() async throws -> String {
        try await relayd.run("account", "set-up", "Anna").trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Runs a command with lines on its standard input. None of them is an argument.
    private func run(_ device: TestDevice, _ arguments: String..., input: String...) async throws -> CommandOutput {
        let process = try device.startReading(arguments + ["--json"])
        for line in input { try process.write(line + "\n") }
        try process.endInput()
        return await process.finish()
    }

    private func code(_ output: CommandOutput) throws -> String? { (try output.json["error"] as? [String: Any])?["code"] as? String }

    /// Sets the first password.
    @discardableResult private func setUp() async throws -> [String] {
        let output = try await run(try TestDevice(), "account", "password", input: try await link(), Self.password)
        #expect(output.status == 0, "\(output.text)")
        return try output.json["recoveryCodes"] as? [String] ?? []
    }

    @Test func scriptSetsThePasswordAndSignsIn() async throws {
        let (address, link) = (try await address(), try await link())
        #expect(address.hasPrefix("\(relayd.origin)/#relay=") && link.contains("/auth/setup?token=") && link.contains("#relay="))
        let desk = try TestDevice()
        let set = try await run(desk, "account", "password", "-", input: "<\(link)>", Self.password)
        #expect(set.status == 0, "\(set.text)")
        #expect(try set.json["event"] as? String == "passwordSet" && set.json["accountName"] as? String == "Anna")
        #expect(try (set.json["recoveryCodes"] as? [String])?.count == 10)
        let login = try await run(desk, "login", address, "--user", "anna", "--name", "Desk", input: Self.password)
        #expect(login.status == 0, "\(login.text)")
        #expect(try login.json["event"] as? String == "signedIn" && login.json["connected"] as? Bool == true)
        #expect(try login.json["accountName"] as? String == "Anna")
        // It is a device like others, and a login that has ended begins again.
        #expect(try await desk.relay("devices").status == 0)
        #expect(try await code(run(desk, "login", "--user", "Anna", input: Self.password)) == "alreadyJoined")
        let endpoint = try await desk.relay("whoami", "--json").json["endpoint"] as? String
        let again = try await run(try TestDevice(), "account", "password", input: try await self.link(), Self.other)
        #expect(again.status == 0, "\(again.text)")
        #expect(try await desk.relay("devices").status == 3)
        #expect(try await run(desk, "login", "--user", "Anna", input: Self.other).status == 0)
        #expect(try await desk.relay("whoami", "--json").json["endpoint"] as? String == endpoint)
        // The relay knows the known password, and keeps recovery codes that are on paper.
        let changed = try await run(desk, "account", "password", "--user", "Anna", input: Self.other, Self.password)
        #expect(changed.status == 0, "\(changed.text)")
        #expect(try changed.json["recoveryCodes"] as? [String] == [])
        #expect(try await desk.relay("devices").status == 0)
        // One that keeps the others signs no device out.
        let kept = try await run(try TestDevice(), "account", "password", "--keep", input: try await self.link(), Self.other)
        #expect(kept.status == 0, "\(kept.text)")
        #expect(try await desk.relay("devices").status == 0)
    }

    @Test func eachFailureHasItsOwnCode() async throws {
        let address = try await address()
        let desk = try TestDevice()
        // There is no password yet: the relay does not tell this from a wrong one.
        for name in ["Anna", "Nobody"] {
            let output = try await run(desk, "login", address, "--user", name, input: Self.password)
            #expect(try output.status == 3 && code(output) == "passwordWrong")
            let message = try #require(try (output.json["error"] as? [String: Any])?["message"] as? String)
            // The advice can be pasted: it names the relay.
            #expect(message.hasSuffix("relay login --browser '\(address)'") && message.contains("relay account password"), "\(message)")
        }
        let used = try await link()
        let weak = try await run(desk, "account", "password", input: used, "short")
        #expect(try weak.status == 2 && code(weak) == "passwordRefused" && weak.text.contains("10 characters"))
        #expect(try await run(desk, "account", "password", input: used, Self.password).status == 0)
        let again = try await run(desk, "account", "password", input: used, Self.password)
        #expect(try again.status == 3 && code(again) == "linkInvalid" && again.text.contains("relayd account set-up"))
        let empty = try await run(desk, "login", address, "--password", input: "", Self.password)
        #expect(try empty.status == 2 && code(empty) == "usage" && empty.text.contains("the name of the account is empty"), "\(empty.text)")
        let nul = try await run(desk, "login", address, "--user", "Anna", input: "a\u{0}b")
        #expect(try nul.status == 2 && code(nul) == "usage" && nul.text.contains("NUL"), "\(nul.text)")
        let invitation = try await relayd.run("invite", "Anna")
        let other = try await run(desk, "account", "password", input: invitation)
        #expect(try other.status == 2 && code(other) == "linkInvalid" && other.text.contains("by: relay join"), "\(other.text)")
        let setUp = try await desk.relay("join", try await link(), "--json")
        #expect(try setUp.status == 2 && code(setUp) == "linkInvalid" && setUp.text.contains("by: relay account password"), "\(setUp.text)")
        let cut = try await desk.relay("join", String(invitation.dropLast(4)), "--json")
        #expect(try cut.status == 2 && code(cut) == "linkInvalid" && cut.text.contains("copy the whole link"), "\(cut.text)")
        let nonsense = try await run(desk, "account", "password", input: "nonsense", Self.password)
        #expect(try nonsense.status == 2 && code(nonsense) == "linkInvalid")
        #expect(try await code(run(desk, "account", "password", "--user", "Anna", input: Self.password, Self.other)) == "relayMissing")
        let wrong = try await run(desk, "account", "password", "--relay", address, "--user", "Anna", input: Self.other, Self.other)
        #expect(try wrong.status == 3 && code(wrong) == "passwordWrong")
        // Each failure beyond the fifth doubles the wait, so that even a slow machine comes to one.
        var last = wrong
        for _ in 0..<20 where last.status == 3 { last = try await run(desk, "login", address, "--user", "Anna", input: Self.other) }
        #expect(try last.status == 6 && code(last) == "tooManyAttempts")
        #expect(last.text.contains(/try again in (1 second|[2-9] seconds|[1-9][0-9]+ seconds)"/), "\(last.text)")
        // Nothing of all this is kept.
        #expect(!FileManager.default.fileExists(atPath: desk.home + "/relay.json"))
    }

    #if os(Linux)
    @Test func terminalAsksAndShowsNoSecret() async throws {
        let codes = try await setUp()
        let address = try await address()
        let desk = try TestDevice()
        let login = try desk.startAtTerminal("login", address, "--name", "Desk")
        var shown: [String] = []
        func answer(_ prompt: String, _ text: String) async throws {
            shown.append(try await login.line { $0.contains(prompt) })
            try login.write(text + "\n")
        }
        try await answer("Name of your account", "anna")
        try await answer("Password of anna", Self.other)
        shown.append(try await login.line { $0.contains("the name or the password is wrong") })
        try await answer("Name of your account", "anna")
        try await answer("Password of anna", "")
        try await answer("Recovery code", try #require(codes.first).lowercased())
        try await answer("New password", Self.other)
        try await answer("The same once more", Self.password)
        try await answer("New password", Self.other)
        try await answer("The same once more", Self.other)
        let output = await login.finish()
        #expect(output.status == 0, "\(output.text)")
        #expect(output.text.contains("signed in to the account Anna"))
        for secret in [Self.other, Self.password, codes[0].lowercased()] {
            #expect(!(shown + output.output).joined().contains(secret))
        }
        #expect(try await run(try TestDevice(), "login", address, "--user", "anna", input: Self.other).status == 0)
    }

    @Test func terminalAsksWhatASetUpLinkEnds() async throws {
        try await setUp()
        let desk = try TestDevice()
        #expect(try await run(desk, "login", try await address(), "--user", "Anna", input: Self.password).status == 0)
        for (decision, status) in [("y", 0), ("", 3)] as [(String, Int32)] {
            let process = try TestDevice().startAtTerminal("account", "password")
            _ = try await process.line { $0.contains("Paste the set-up link") }
            try process.write(try await link() + "\n")
            _ = try await process.line { $0.contains("Keep them? [y/N]") }
            try process.write(decision + "\n")
            _ = try await process.line { $0.contains("New password") }
            try process.write(Self.other + "\n")
            _ = try await process.line { $0.contains("The same once more") }
            try process.write(Self.other + "\n")
            let output = await process.finish()
            #expect(output.status == 0 && output.text.contains("Write these recovery codes down"), "\(output.text)")
            #expect(try await desk.relay("devices").status == status)
        }
    }
    #endif

    @Test func firstStartAndErrorNameThePinnedAddress() async throws {
        let output = try await TestDevice().relay("login", relayd.origin, "--json")
        #expect(output.status == 5 && output.text.contains("relay login '\(relayd.origin)/#relay=ID'"), "\(output.text)")
        let directory = FileManager.default.temporaryDirectory.appending(path: "relayd-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        let first = try RelayProcess(
            [
                "serve", "--listen", "0.0.0.0:\(try FreePort.take())", "--tunnel-listen", "off", "--data-directory", directory.path,
            ],
            executable: Project.products.appending(path: "relayd"),
            environment: ["HOME": directory.path, "USER": "anna"]
        )
        let set = try await first.line { $0.contains("relay account password") }
        #expect(set.contains(/https:\/\/[^ ]+\/auth\/setup\?token=[^ ]+#relay=[a-z2-7]+$/), "\(set)")
        #expect(try await first.line { $0.contains("relay login '") }.contains(/relay login 'https:\/\/[^ ']+\/#relay=[a-z2-7]+'/))
        #expect(try await first.line { $0.contains("browsers") }.contains("docs/https.md"))
        first.send(SIGTERM)
        #expect(await first.finish().status == 0)
    }
}
