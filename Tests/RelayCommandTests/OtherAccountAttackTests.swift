// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Whose account a device joins: a person is told and asked, before the device is in it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct OtherAccountAttackTests {
    /// A relay with Anna and Mallory, who have passwords.
    private static func bench() async throws -> (TestAccount, anna: SignInBrowser, mallory: SignInBrowser) {
        let (account, anna) = try await LoginTests.bench()
        _ = try await account.relay.run("account", "add", "Mallory")
        let mallory = SignInBrowser(origin: account.relay.origin)
        try await mallory.setUp(try await account.relay.run("account", "set-up", "Mallory"))
        return (account, anna, mallory)
    }

    /// Whether the relay knows any endpoint.
    private static func hasEndpoints(_ account: TestAccount) async throws -> Bool {
        let list = try JSONSerialization.jsonObject(with: Data(try await account.relay.run("endpoint", "list", "--json").utf8))
        return try !#require(list as? [Any]).isEmpty
    }

    private static func code(_ output: CommandOutput) throws -> String? {
        try (output.json["error"] as? [String: Any])?["code"] as? String
    }

    private static func keepsNothing(_ device: TestDevice) throws -> Bool {
        let accounts = (try? FileManager.default.contentsOfDirectory(atPath: device.home + "/accounts")) ?? []
        return !FileManager.default.fileExists(atPath: device.home + "/relay.json") && accounts.isEmpty
    }

    @Test func scriptThatCanAskNoPersonIsToldBeforeAPageIsOpened() async throws {
        let account = try await TestAccount()
        let desk = try TestDevice()
        for method in ["--browser", "--device"] {
            let output = try await desk.relay("login", account.relay.origin, method, "--json")
            #expect(output.status == 2)
            let error = try #require(try output.json["error"] as? [String: Any])
            #expect(error["code"] as? String == "yesRequired")
            let command = "relay login \(account.relay.origin) \(method) --json --home \(desk.home) --yes"
            #expect((error["message"] as? String)?.hasSuffix("run: \(command)") ?? false, "\(output.text)")
            #expect(try Self.keepsNothing(desk))
        }
    }

    /// A script signs in again by itself, but a person of another account does not get the device.
    @Test func newSignInOfAScriptStaysInItsAccount() async throws {
        let (account, anna, mallory) = try await Self.bench()
        let desk = try TestDevice()
        #expect(try await LoginTests.signIn(desk, anna, [account.relay.origin, "--name", "Desk"]).status == 0)
        let endpoint = try await desk.relay("whoami", "--json").json["endpoint"] as? String
        let session = try #require(try await desk.relay("sessions", "--json").json["session"] as? String)
        _ = try await anna.get("/auth/account")
        #expect(try await anna.post("/auth/account/login", ["session": session, "confirmed": "yes"]).status == 303)
        let wrong = try await LoginTests.signIn(desk, mallory, [], confirms: false)
        #expect(try wrong.status == 3 && Self.code(wrong) == "accountUnknown", "\(wrong.text)")
        #expect(try await !mallory.get("/auth/account").text.contains(Self.signedIn))
        #expect(try await desk.relay("devices").status == 3)
        let right = try await LoginTests.signIn(desk, anna, [], confirms: false)
        #expect(right.status == 0, "\(right.text)")
        #expect(try await desk.relay("whoami", "--json").json["endpoint"] as? String == endpoint)
    }

    /// The button of an app, a device or another browser on the account page.
    private static let signedIn = "Sign it out"

    #if os(Linux)
    private static let question = "shall this device join it? [y/N]"

    /// Starts a join at a terminal, up to the question.
    private static func join(_ device: TestDevice, _ link: String, of account: TestAccount) async throws -> RelayProcess {
        let join = try device.startAtTerminal("join", link, "--name", "Desk")
        _ = try await join.line { $0.contains(#"the account "Anna" at \#(account.relay.origin)"#) }
        _ = try await join.line { $0.contains(question) }
        return join
    }

    @Test(arguments: ["y", "n", "", "\u{3}"]) func personConfirmsTheAccountOfALink(answer: String) async throws {
        let account = try await TestAccount()
        let device = try TestDevice()
        let join = try await Self.join(device, try await account.link(), of: account)
        #expect(try await !Self.hasEndpoints(account))
        try join.write(answer == "\u{3}" ? answer : answer + "\n")
        let output = await join.finish()
        if answer == "y" {
            #expect(output.status == 0 && output.text.contains("joined the account Anna"), "\(output.text)")
            #expect(try await device.relay("devices").status == 0)
        } else {
            #expect(output.status == (answer == "\u{3}" ? 128 + SIGINT : 6), "\(output.text)")
            let texts = answer == "\u{3}" ? [] : ["nothing of it is kept", "The link is used up"]
            #expect(texts.allSatisfy(output.text.contains), "\(output.text)")
            #expect(try Self.keepsNothing(device))
            #expect(try await !Self.hasEndpoints(account))
        }
    }

    /// A prompt before the question has listened to signals, too. Meanwhile no other command joins here or leaves.
    @Test(arguments: [SIGINT, SIGTERM, SIGHUP]) func signalAtTheQuestionEndsAJoinWhoseLinkWasTyped(number: Int32) async throws {
        let account = try await TestAccount()
        let device = try TestDevice()
        let link = try await account.link()
        let join = try await device.startJoin(typing: link)
        _ = try await join.line { $0.contains(Self.question) }
        for other in [["join", link], ["login", account.relay.origin, "--device"], ["leave"]] {
            let output = try await device.run(other)
            #expect(output.status == 1 && output.errorText.contains("answer its question"), "\(other): \(output.errorText)")
        }
        kill(try Self.process(of: device), number)
        let output = await join.finish()
        #expect(output.status == 128 + number, "\(output.status): \(output.text)")
        #expect(try Self.keepsNothing(device))
        #expect(try await !Self.hasEndpoints(account))
    }

    /// A slip of the finger does not use the link up.
    @Test func unclearAnswerIsAskedAgain() async throws {
        let account = try await TestAccount()
        let join = try await Self.join(try TestDevice(), try await account.link(), of: account)
        try join.write("maybe\n")
        _ = try await join.line { $0.contains("Answer y or n.") && $0.contains(Self.question) }
        try join.write("y\n")
        let output = await join.finish()
        #expect(output.status == 0 && output.text.contains("joined the account Anna"), "\(output.text)")
    }

    @Test func yesAsksNothingAtATerminal() async throws {
        let account = try await TestAccount()
        let join = try TestDevice().startAtTerminal("join", try await account.link(), "--yes")
        let output = await join.finish()
        #expect(output.status == 0 && output.text.contains("joined the account Anna") && !output.text.contains("[y/N]"), "\(output.text)")
    }

    /// Another person finishes the sign-in that the person at the terminal has begun.
    @Test(arguments: ["--browser", "--device"]) func signInOfAnotherPersonIsNoticed(method: String) async throws {
        let (account, _, mallory) = try await Self.bench()
        let desk = try TestDevice()
        let login = try desk.startAtTerminal("login", account.relay.origin, method, "--name", "Desk")
        if method == "--browser" {
            let page = try await login.line { $0.contains("http://127.0.0.1") }
            let url = try #require(URL(string: page.trimmingCharacters(in: .whitespacesAndNewlines)))
            let location = try await mallory.decide(app: url)
            #expect(try await SignInBrowser.request("GET", location).status == 200)
        } else {
            let page = try #require(try await login.line { $0.contains("http") }.firstMatch(of: /http[^ \r]+/)).0
            let code = try #require(try await login.line { $0.contains("enter the code") }.firstMatch(of: /[B-Z]{4}-[B-Z]{4}/)).0
            try await mallory.decide(device: try #require(URL(string: String(page))), code: String(code))
        }
        _ = try await login.line { $0.contains(#"the account "Mallory""#) }
        _ = try await login.line { $0.contains(Self.question) }
        #expect(try await !Self.hasEndpoints(account))
        #expect(try await mallory.get("/auth/account").text.contains(Self.signedIn))
        try login.write("n\n")
        let output = await login.finish()
        #expect(output.status == 6, "\(output.text)")
        #expect(try Self.keepsNothing(desk))
        #expect(try await !Self.hasEndpoints(account))
        // The login is ended, too.
        #expect(try await !mallory.get("/auth/account").text.contains(Self.signedIn))
    }

    /// The process that shows the question.
    private static func process(of device: TestDevice) throws -> pid_t {
        try #require(
            FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { pid_t($0) }.first { id in
                let words = FileManager.default.contents(atPath: "/proc/\(id)/cmdline").map { $0.split(separator: 0) } ?? []
                return words.first?.suffix(6) == Data("/relay".utf8) && words.last == Data(device.home.utf8)
            }
        )
    }

    @Test(arguments: ["join", "login", "leave"]) func killAtTheQuestionJoinsNothing(next: String) async throws {
        let (account, anna) = try await LoginTests.bench()
        let device = try TestDevice()
        let link = try await account.link()
        let join = try await Self.join(device, link, of: account)
        kill(try Self.process(of: device), SIGKILL)
        _ = await join.finish()
        for command in ["devices", "whoami", "invite"] {
            let output = try await device.relay(command)
            #expect(output.status == 3 && output.errorText.contains("joining was not finished"), "\(command): \(output.errorText)")
        }
        #expect(try await !Self.hasEndpoints(account))
        switch next {
        case "join":
            let again = try await Self.join(device, link, of: account)
            try again.write("y\n")
            let output = await again.finish()
            #expect(output.status == 0, "\(output.text)")
            #expect(try await device.relay("devices").status == 0)
        case "login":
            #expect(try await LoginTests.signIn(device, anna, []).status == 0)
            #expect(try await device.relay("devices").status == 0)
        default:
            #expect(try await device.relay("leave").status == 0)
            #expect(try Self.keepsNothing(device))
        }
    }
    #endif
}
