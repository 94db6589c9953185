// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct JoinTests {
    @Test func joiningMakesADevice() async throws {
        let account = try await TestAccount()
        let device = try TestDevice()
        #expect(try await device.relay("whoami").status == 3)
        let joined = try await device.relay("join", try await account.link(), "--name", "Desk", "--json")
        #expect(joined.status == 0)
        #expect(try joined.json["name"] as? String == "Desk")
        #expect(try joined.json["connected"] as? Bool == true)
        let facts = try await device.relay("whoami", "--json")
        for key in ["device", "endpoint", "relay", "relayID"] {
            #expect(try facts.json[key] as? String == joined.json[key] as? String)
        }
        let text = try await device.relay("whoami")
        #expect(text.output.first == "name      Desk")
        // The account is the relay's own name for it, also without the relay.
        #expect(try joined.json["accountName"] as? String == "Anna")
        #expect(try facts.json["accountName"] as? String == "Anna")
        #expect(text.output.contains("account   Anna"))
        #expect(text.error.isEmpty)
        let mode = try FileManager.default.attributesOfItem(atPath: device.home + "/relay.json")[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func linkIsReadFromStandardInput() async throws {
        let account = try await TestAccount()
        for arguments in [["join"], ["join", "-"]] {
            let device = try TestDevice()
            let join = try device.startReading(arguments + ["--name", "Desk"])
            // As a mail program shows it.
            try join.write("  <\(try await account.link())>.\r\n")
            try join.endInput()
            let output = await join.finish()
            #expect(output.status == 0 && output.text.contains("as Desk"), "\(output.errorText)")
        }
        let long = try TestDevice().startReading("join", "-")
        try long.write(String(repeating: "x", count: 70_000))
        try long.endInput()
        let tooLong = await long.finish()
        #expect(tooLong.status == 2)
        #expect(tooLong.errorText == "relay: a line on standard input may have at most 64 KiB", "\(tooLong.errorText)")
        let empty = try await TestDevice().relay("join")
        #expect(empty.status == 2 && empty.errorText.contains("standard input is empty"), "\(empty.errorText)")
    }

    #if os(Linux)
    @Test func terminalDoesNotShowTheLink() async throws {
        let account = try await TestAccount()
        let device = try TestDevice()
        let link = try await account.link()
        let join = try await device.startJoin(typing: link)
        _ = try await join.line { $0.contains("shall this device join it? [y/N]") }
        try join.write("y\n")
        let output = await join.finish()
        let isJoined = output.status == 0 && output.text.contains("joined the account Anna at \(account.relay.origin)")
        #expect(isJoined && !output.text.contains("invite="), "\(output.text)")
    }

    /// A shell at a terminal of its own.
    private static func shell(_ line: String, on device: TestDevice) throws -> RelayProcess {
        try RelayProcess(
            ["-qefc", line, "/dev/null"],
            executable: URL(filePath: "/usr/bin/script"),
            environment: device.environment,
            hasInput: true
        )
    }

    @Test func interruptedPromptShowsTypedTextAgain() async throws {
        let device = try TestDevice()
        let relay = Project.products.appending(path: "relay").path
        // The shell survives Ctrl-C, and then prints whether the terminal shows what is typed.
        let line = "trap : INT; '\(relay)' join --home '\(device.home)'; stty -a | tr -d ';' | tr ' ' '\\n' | grep -x -e echo -e -echo"
        let shell = try Self.shell(line, on: device)
        _ = try await shell.line { $0.contains("Paste the join link") }
        try shell.write("\u{3}")
        let rest = await shell.finish()
        #expect(rest.output.contains { $0.trimmingCharacters(in: .whitespacesAndNewlines) == "echo" }, "\(rest.text)")
    }

    /// The rest of a link that was pasted in two lines is a secret, and no command.
    @Test func shellReadsNothingOfAPastedLink() async throws {
        let device = try TestDevice()
        let relay = Project.products.appending(path: "relay").path
        // Then it prints what it could read.
        let line = "'\(relay)' join --home '\(device.home)'; stty -icanon min 0 time 0; echo \"left:$(cat)\""
        let shell = try Self.shell(line, on: device)
        _ = try await shell.line { $0.contains("Paste the join link") }
        try shell.write("https://192.0.2.1:1/#relay=\(String(repeating: "a", count: 52)),inv\nite=c2VjcmV0\n")
        let rest = await shell.finish()
        #expect(rest.output.contains { $0.trimmingCharacters(in: .whitespacesAndNewlines) == "left:" }, "\(rest.text)")
    }
    #endif

    @Test func aLinkWorksOnce() async throws {
        let account = try await TestAccount()
        let (first, second) = (try TestDevice(), try TestDevice())
        let link = try await account.link()
        #expect(try await first.relay("join", link, "--name", "First").status == 0)
        let again = try await second.relay("join", link, "--name", "Second", "--json")
        #expect(again.status == 3)
        #expect(try (again.json["error"] as? [String: Any])?["code"] as? String == "linkInvalid")
        // The failed attempt leaves nothing behind.
        #expect(try await second.relay("whoami").status == 3)
        #expect(!FileManager.default.fileExists(atPath: second.home + "/relay.json"))
        // If two devices use a link, one of them may be a thief: the issuer ends the login. Joining again restores it.
        let over = try await first.relay("devices")
        #expect(over.status == 3)
        #expect(over.errorText.contains("join"))
        let mended = try await first.relay("join", try await account.link())
        #expect(mended.status == 0)
        #expect(mended.text.contains("as First "))
        #expect(try await first.relay("devices").status == 0)
    }

    @Test func joiningTwiceIsRejectedAndKeepsTheLink() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        let link = try await account.link()
        let again = try await device.relay("join", link)
        #expect(again.status == 1)
        #expect(again.errorText.contains("relay leave"))
        let other = try TestDevice()
        #expect(try await other.relay("join", link, "--name", "Other").status == 0)
    }

    @Test func movedRelayIsFoundByANewLink() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let before = try await desk.relay("whoami", "--json").json
        _ = try await account.relay.stop()
        let moved = try await RelaydProcess(directory: account.relay.directory)
        _ = try await moved.start()
        #expect(try await desk.relay("devices").status == 5)
        let link = try await moved.run("invite", "Anna")
        let joined = try await desk.relay("join", link, "--json")
        #expect(joined.status == 0, "\(joined.errorText)")
        #expect(try joined.json["moved"] as? Bool == true)
        #expect(try joined.json["relay"] as? String == moved.origin)
        let after = try await desk.relay("whoami", "--json").json
        #expect(after["endpoint"] as? String == before["endpoint"] as? String)
        #expect(try await desk.relay("devices", "--all").text.contains("TV"))
        // The link is still valid for another device.
        let other = try TestDevice()
        #expect(try await other.relay("join", link, "--name", "Other").status == 0)
        // A device does not accept another relay as its own relay at a new address.
        let elsewhere = try await TestAccount()
        #expect(try await tv.relay("join", try await elsewhere.link()).status == 1)
        #expect(try await moved.stop() == 0)
    }

    @Test func relayThatMovesToAnAnnouncedAddressIsFoundWithoutALink() async throws {
        let ports = (try await RelaydProcess().port, try await RelaydProcess().port)
        let urls = [ports.0, ports.1].flatMap { ["--url", "http://127.0.0.1:\($0)"] }
        let old = try await RelaydProcess(port: ports.0, arguments: urls)
        _ = try await old.start()
        _ = try await old.run("account", "add", "Anna")
        let device = try TestDevice()
        #expect(try await device.relay("join", try await old.run("invite", "Anna"), "--name", "Desk").status == 0)
        _ = try await old.stop()
        let new = try await RelaydProcess(port: ports.1, directory: old.directory, arguments: urls)
        _ = try await new.start()
        #expect(try await device.relay("devices").status == 0)
        #expect(try await new.stop() == 0)
    }

    @Test func invalidCAFileIsReportedBeforeTheLinkIsUsed() async throws {
        let account = try await TestAccount()
        let device = try TestDevice()
        let link = try await account.link()
        let file = device.directory.appending(path: "ca.pem")
        try Data("nothing".utf8).write(to: file)
        for path in [file.path, "/nowhere/ca.pem"] {
            let refused = try await device.relay("join", link, "--ca-file", path)
            #expect(refused.status == 2)
            #expect(refused.errorText.contains(path))
        }
        #expect(try await device.relay("join", link, "--name", "Desk").status == 0)
    }

    @Test func joiningAnotherRelayIsRejected() async throws {
        let (account, elsewhere) = (try await TestAccount(), try await TestAccount())
        let device = try await account.device(named: "Desk")
        let refused = try await device.relay("join", try await elsewhere.link())
        #expect(refused.status == 1)
        #expect(refused.errorText.contains(account.relay.origin), "\(refused.errorText)")
        #expect(refused.errorText.hasSuffix("run: relay join --profile NAME"), "\(refused.errorText)")
        #expect(try await device.relay("devices").status == 0)
    }

    @Test func leavingAndJoiningAgainMakesAnotherEndpointOfTheSameDevice() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        let before = try await device.relay("whoami", "--json").json
        let left = try await device.relay("leave", "--json")
        #expect(left.status == 0)
        #expect(try left.json["revoked"] as? Bool == true)
        #expect(try await device.relay("whoami").status == 3)
        #expect(try await device.relay("leave").status == 3)
        #expect(try await device.relay("join", try await account.link(), "--name", "Desk").status == 0)
        let after = try await device.relay("whoami", "--json").json
        #expect(after["device"] as? String == before["device"] as? String)
        #expect(after["endpoint"] as? String != before["endpoint"] as? String)
    }

    @Test func leavingWorksWithoutTheRelay() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        _ = try await account.relay.stop()
        let left = try await device.relay("leave")
        #expect(left.status == 0)
        #expect(left.errorText.contains("relay revoke"))
        #expect(try await device.relay("whoami").status == 3)
    }

    @Test func damagedOrReadableHomeIsReported() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        let file = device.home + "/relay.json"
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
        let open = try await device.relay("whoami")
        #expect(open.status == 1)
        #expect(open.errorText.contains("chmod"))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
        try Data("{".utf8).write(to: URL(filePath: file))
        let damaged = try await device.relay("whoami")
        #expect(damaged.status == 1)
        #expect(damaged.errorText.contains(file))
    }

    @Test(arguments: ["garbage", "https://relay.example/", "https://relay.example/#relay=x,invite=y", ""])
    func malformedLinkIsWrongUsage(link: String) async throws {
        let output = try await TestDevice().relay("join", link)
        #expect(output.status == 2)
        #expect(output.output.isEmpty)
        #expect(!output.error.isEmpty)
    }

    @Test func invalidNameIsRejectedBeforeTheLinkIsUsed() async throws {
        let account = try await TestAccount()
        let link = try await account.link()
        let device = try TestDevice()
        for name in ["\u{1B}[31mred", "line\nbreak", "\u{202E}evil", " ", String(repeating: "x", count: 65)] {
            let refused = try await device.relay("join", link, "--name", name)
            #expect(refused.status == 2)
            #expect(refused.errorText.contains("--name"))
        }
        #expect(try await device.relay("join", link, "--name", "Desk").status == 0)
    }

    @Test func plainHTTPToAnotherMachineIsAllowedExplicitly() async throws {
        let account = try await TestAccount()
        // An address without a host (RFC 5737).
        let link = try await account.link().replacing(account.relay.host, with: "192.0.2.1:9")
        let refused = try await TestDevice().relay("join", link, "--name", "Desk")
        #expect(refused.status == 2)
        #expect(refused.errorText.contains("--allow-http"))
    }

    @Test func bothDevicesOfOneLinkAreToldWhyItEnded() async throws {
        let account = try await TestAccount()
        let link = try await account.link()
        let (desk, tv) = (try TestDevice(), try TestDevice())
        #expect(try await desk.relay("join", link, "--name", "Desk").status == 0)
        let second = try await tv.relay("join", link, "--name", "TV", "--json")
        #expect(second.status == 3 && second.text.contains("two devices used one join link"), "\(second.text)")
        let first = try await desk.relay("devices")
        #expect(first.status == 3 && first.errorText.contains("two devices used one join link"), "\(first.errorText)")
        #expect(first.errorText.contains("relay join"))
        #expect(try await desk.relay("doctor").text.contains("two devices used one join link"))
        // A link of its own brings it back, with its keys.
        let endpoint = try await desk.relay("whoami", "--json").json["endpoint"] as? String
        #expect(try await desk.relay("join", try await account.link()).status == 0)
        #expect(try await desk.relay("whoami", "--json").json["endpoint"] as? String == endpoint)
    }
}
