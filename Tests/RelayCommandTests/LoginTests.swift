// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Signing in and out on the command line, with a real relay, its issuer and a scripted browser of the user.
@Suite(.serialized, .timeLimit(.minutes(10))) struct LoginTests {
    /// A relay and the browser of its user Anna, who has a password.
    static func bench() async throws -> (TestAccount, SignInBrowser) {
        let account = try await TestAccount()
        let browser = SignInBrowser(origin: account.relay.origin)
        try await browser.setUp(try await account.relay.run("account", "set-up", "Anna"))
        return (account, browser)
    }

    /// Signs in by a code that the user enters.
    /// - Parameter confirms: Whether the person confirms the account.
    static func signIn(
        _ device: TestDevice,
        _ browser: SignInBrowser,
        _ arguments: [String],
        confirms: Bool = true
    ) async throws -> CommandOutput {
        let process = try RelayProcess(
            ["login"] + arguments + ["--device", "--json", "--home", device.home] + (confirms ? ["--yes"] : []),
            environment: device.environment
        )
        let code = try JSON.object(try await process.line())
        #expect(code["event"] as? String == "code")
        let page = try #require((code["url"] as? String).flatMap { URL(string: $0) })
        try await browser.decide(device: page, code: try #require(code["userCode"] as? String))
        return await process.finish()
    }

    @Test func codeSignsIn() async throws {
        let (account, browser) = try await Self.bench()
        let desk = try TestDevice()
        let output = try await Self.signIn(desk, browser, [account.relay.origin, "--name", "Desk"])
        #expect(output.status == 0, "\(output.text)")
        let login = try output.json
        #expect(login["event"] as? String == "signedIn" && login["name"] as? String == "Desk")
        #expect(login["connected"] as? Bool == true && login["issuer"] as? String == account.relay.origin + "/auth")
        // It is a device like one that has joined.
        let tv = try await account.device(named: "TV")
        let host = try await tv.host()
        #expect(try await desk.relay("devices").text.contains("TV"))
        host.send(SIGTERM)
        _ = await host.finish()
        let sessions = try await desk.relay("sessions", "--json").json
        #expect(sessions["client"] as? String == "org.device-relay.cli" && sessions["listed"] as? Bool == false)
        #expect(sessions["page"] as? String == account.relay.origin + "/auth/account")
        #expect(try await browser.get("/auth/account").text.contains(try #require(sessions["session"] as? String)))
        // Leaving takes the device out of the account, and ends the login.
        let left = try await desk.relay("logout", "--json").json
        #expect(left["revoked"] as? Bool == true && left["endpoint"] as? String == login["endpoint"] as? String)
        #expect(try await !browser.get("/auth/account").text.contains(try #require(sessions["session"] as? String)))
        #expect(try await !tv.relay("devices", "--all").text.contains("Desk"))
        #expect(try await desk.relay("whoami").status == 3)
    }

    @Test func browserSignsIn() async throws {
        let (account, browser) = try await Self.bench()
        let desk = try TestDevice()
        let process = try desk.start("login", account.relay.origin, "--browser", "--name", "Desk", "--json", "--yes")
        let page = try JSON.object(try await process.line())
        #expect(page["event"] as? String == "page")
        let location = try await browser.decide(app: try #require((page["url"] as? String).flatMap { URL(string: $0) }))
        #expect(try await SignInBrowser.request("GET", location).status == 200)
        let output = await process.finish()
        #expect(output.status == 0, "\(output.text)")
        #expect(try output.json["event"] as? String == "signedIn")
        #expect(try await browser.get("/auth/account").text.contains("relay on Desk"))
        #expect(try await desk.relay("devices").status == 0)
    }

    @Test(
        .enabled(
            if: PythonScript.isAvailable && PythonScript.has("glewlwyd"),
            "needs Debian's package glewlwyd; scripts/test sets DEVICE_RELAY_PYTHON"
        )
    ) func providerOfOthersSignsIn() async throws {
        struct Provider: Decodable { var issuer: String }
        let desk = try TestDevice()
        let script = try PythonScript("glewlwyd.py", [desk.directory.path, "\(FreePort.take())"])
        let issuer = try await script.answer(Provider.self).issuer
        let account = try await TestAccount(
            issuers:
                #"{"embedded":false,"issuers":[{"issuer":"\#(issuer)","audience":{"scope":"relay.device.register"},"autoProvision":true}]}"#
        )
        let process = try desk.start(
            "login",
            account.relay.origin,
            "--issuer",
            issuer,
            "--client-id",
            "relay",
            "--device",
            "--name",
            "Desk",
            "--json",
            "--yes"
        )
        let code = try JSON.object(try await process.line())
        try await script.ask("device \(try #require(code["userCode"] as? String))")
        let output = await process.finish()
        #expect(output.status == 0, "\(output.text)")
        #expect(try output.json["issuer"] as? String == issuer)
        #expect(try await desk.relay("devices").status == 0)
        // The provider ends the login.
        let left = try await desk.relay("logout", "--json").json
        #expect(left["revoked"] as? Bool == true)
    }

    @Test func endedLoginIsRenewedAndAValidOneKept() async throws {
        let (account, browser) = try await Self.bench()
        let desk = try TestDevice()
        #expect(try await Self.signIn(desk, browser, [account.relay.origin]).status == 0)
        let endpoint = try await desk.relay("whoami", "--json").json["endpoint"] as? String
        let again = try await desk.relay("login", "--device", "--json")
        #expect(again.status == 1)
        #expect(try (again.json["error"] as? [String: Any])?["code"] as? String == "alreadyJoined")
        let session = try #require(try await desk.relay("sessions", "--json").json["session"] as? String)
        _ = try await browser.get("/auth/account")
        #expect(try await browser.post("/auth/account/login", ["session": session, "confirmed": "yes"]).status == 303)
        let over = try await desk.relay("devices")
        #expect(over.status == 3 && over.errorText.contains("relay login"))
        #expect(try await Self.signIn(desk, browser, []).status == 0)
        #expect(try await desk.relay("devices").status == 0)
        #expect(try await desk.relay("whoami", "--json").json["endpoint"] as? String == endpoint)
    }

    @Test func accountsOfAHomeAreSeparate() async throws {
        let (account, browser) = try await Self.bench()
        let (work, workBrowser) = try await Self.bench()
        let desk = try TestDevice()
        #expect(try await desk.relay("profiles", "--json").json["profiles"] as? [String] == [])
        #expect(try await Self.signIn(desk, workBrowser, [work.relay.origin, "--profile", "work", "--name", "Desk W"]).status == 0)
        // The only account is the one that commands use.
        #expect(try await desk.relay("whoami", "--json").json["name"] as? String == "Desk W")
        #expect(try await Self.signIn(desk, browser, [account.relay.origin, "--profile", "default", "--name", "Desk"]).status == 0)
        #expect(try await desk.relay("whoami", "--json").json["name"] as? String == "Desk")
        let list = try #require(try await desk.relay("profiles", "--json").json["profiles"] as? [[String: Any]])
        #expect(list.map { $0["name"] as? String } == ["default", "work"])
        #expect(list.map { $0["current"] as? Bool } == [true, false])
        #expect(list.map { $0["state"] as? String } == ["connected", "connected"])
        #expect(list.map { $0["relay"] as? String } == [account.relay.origin, work.relay.origin])
        #expect(Set(list.map { $0["endpoint"] as? String }).count == 2)
        #expect(try await desk.relay("profile", "use", "work", "--json").json["current"] as? String == "work")
        #expect(try await desk.relay("whoami", "--json").json["name"] as? String == "Desk W")
        #expect(try await desk.relay("whoami", "--profile", "default", "--json").json["name"] as? String == "Desk")
        // One relay is gone, and the list says so.
        _ = try await work.relay.stop()
        let states = try #require(try await desk.relay("profiles", "--json").json["profiles"] as? [[String: Any]])
        #expect(states.map { $0["state"] as? String } == ["connected", "relayUnreachable"])
        // The remaining account is used.
        #expect(try await desk.relay("leave", "--json").json["revoked"] as? Bool == false)
        #expect(try await desk.relay("whoami", "--json").json["name"] as? String == "Desk")
        #expect(try await desk.relay("whoami", "--profile", "work").status == 3)
    }

    @Test func deniedLoginLeavesNothing() async throws {
        let (account, browser) = try await Self.bench()
        let desk = try TestDevice()
        let process = try desk.start("login", account.relay.origin, "--device", "--json", "--yes")
        let code = try JSON.object(try await process.line())
        let page = try #require((code["url"] as? String).flatMap { URL(string: $0) })
        try await browser.decide(device: page, code: try #require(code["userCode"] as? String), "deny")
        let output = await process.finish()
        #expect(output.status == 3)
        #expect(!FileManager.default.fileExists(atPath: desk.home + "/relay.json"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: desk.home + "/accounts").isEmpty)
    }

    @Test func interruptedLoginLeavesNothing() async throws {
        let (account, browser) = try await Self.bench()
        let desk = try TestDevice()
        for (method, number) in [("--device", SIGINT), ("--browser", SIGTERM), ("--device", SIGHUP)] {
            let process = try desk.start("login", account.relay.origin, method, "--json", "--yes")
            _ = try await process.line()
            process.send(number)
            let output = await process.finish()
            // The exit code by which a shell reports the signal.
            #expect(output.status == 128 + number)
            #expect(try (output.json["error"] as? [String: Any])?["code"] as? String == "cancelled")
            #expect(!FileManager.default.fileExists(atPath: desk.home + "/relay.json"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: desk.home + "/accounts").isEmpty)
        }
        // A process that was killed may leave the account, which the next login completes.
        let killed = try desk.start("login", account.relay.origin, "--device", "--json", "--yes")
        _ = try await killed.line()
        killed.send(SIGKILL)
        _ = await killed.finish()
        #expect(FileManager.default.fileExists(atPath: desk.home + "/relay.json"))
        #expect(try await Self.signIn(desk, browser, []).status == 0)
        #expect(try await desk.relay("devices").status == 0)
    }

    @Test func wrongUsageNamesTheMistake() async throws {
        let account = try await TestAccount()
        let desk = try TestDevice()
        for (arguments, status, code) in [
            (["login"], 2, "relayMissing"), (["login", "ftp://relay.example"], 2, "relayInvalid"),
            (["login", "https://user@relay.example"], 2, "relayInvalid"), (["login", "http://192.0.2.1:8080"], 2, "plainHTTP"),
            (["login", account.relay.origin, "--issuer", "nonsense"], 2, "issuerInvalid"),
            (["login", account.relay.origin, "--issuer", "https://login.example", "--device", "--yes"], 3, "accessTokenRequestFailed"),
            (["login", account.relay.origin, "--ca-file", "/no/such"], 2, "caFileUnreadable"),
            (["login", account.relay.origin, "--device", "--browser"], 2, "usage"),
            (["login", account.relay.origin, "--profile", "../x"], 2, "usage"),
            (["login", "http://127.0.0.1:1"], 5, "networkNotAvailable"),
            (["profile", "use", "none"], 3, "notSignedIn"), (["profile", "use", ".."], 2, "profileInvalid"),
            (["whoami", "--profile", "none"], 3, "notSignedIn"), (["sessions"], 3, "notSignedIn"), (["logout"], 3, "notSignedIn"),
        ] as [([String], Int32, String)] {
            let output = try await desk.run(arguments + ["--json"])
            #expect(output.status == status, "\(arguments): \(output.text)")
            #expect(try (output.json["error"] as? [String: Any])?["code"] as? String == code, "\(arguments)")
        }
        #expect(try await desk.relay("profiles", "--json").json["profiles"] as? [String] == [])
    }
}
