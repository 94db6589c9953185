// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Programs that end, or whose disk fails, at each step of their first start, of a join, a login, a link and a refresh. What they leave
/// opens again, and no secret is used up without its result.
///
/// The suite runs a few steps, chosen by a seed. `scripts/sweep ends --full` runs all of them.
@Suite(
    .serialized,
    .timeLimit(.minutes(Sweep.isFull ? 600 : 60)),
    .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/strace"), "needs Debian's package strace")
)
struct KillSweepTests {
    /// How a program ends.
    enum Step: CustomStringConvertible, Sendable {
        enum Blow: String, CaseIterable, Sendable {
            case kill = "signal=SIGKILL"
            case interrupt = "signal=SIGINT"
            case terminate = "signal=SIGTERM"
            case fullDisk = "error=ENOSPC"
            case failingDisk = "error=EIO"
        }

        /// At the `number`th system call of a thread.
        case call(Blow, String, Int)
        /// By a signal, after a time in milliseconds.
        case time(Int32, Int)

        var description: String {
            switch self {
            case .call(let blow, let call, let number): "\(blow.rawValue) at \(call) \(number)"
            case .time(let signal, let milliseconds): "signal \(signal) after \(milliseconds) ms"
            }
        }

        func start(_ program: URL, _ arguments: [String], _ environment: [String: String]) throws -> RelayProcess {
            guard case .call(let blow, let call, let number) = self else {
                return try RelayProcess(arguments, executable: program, environment: environment)
            }
            let injection = ["-e", "trace=\(call)", "-e", "inject=\(call):\(blow.rawValue):when=\(number)"]
            return try RelayProcess(
                ["-D", "-f", "-qq", "-o", "/dev/null"] + injection + [program.path] + arguments,
                executable: URL(filePath: "/usr/bin/strace"),
                environment: environment
            )
        }

        /// Ends the program, if its time has come only now.
        func strike(_ process: RelayProcess) async throws {
            guard case .time(let signal, let milliseconds) = self else { return }
            try await Task.sleep(for: .milliseconds(milliseconds))
            process.send(signal)
        }
    }

    /// The calls that change files.
    private static let calls = ["fsync", "rename", "link", "unlink", "mkdir", "pwrite64", "ftruncate", "chmod", "fcntl"]
    private static let signals = [SIGKILL, SIGINT, SIGTERM]
    /// The time of a last step, in the suite.
    private static let duration = 300

    /// Runs steps: a few, or all until no call has as many as the step's number, and no step of 1 ms finds the program running.
    /// - Parameter run: Returns whether the step had an effect.
    private static func sweep(_ few: Int, _ run: (Step) async throws -> Bool) async throws {
        var random = SeededGenerator(seed: Sweep.seed)
        print("seed \(Sweep.seed)")
        guard Sweep.isFull else {
            for _ in 0..<few { _ = try await run(step(&random)) }
            return
        }
        for blow in Step.Blow.allCases {
            for call in calls {
                for number in 1..<200 { guard try await run(.call(blow, call, number)) else { break } }
            }
        }
        for signal in signals {
            var (milliseconds, without) = (0, 0)
            // The duration differs from run to run.
            while without < 20, milliseconds < 3_000 {
                without = try await run(.time(signal, milliseconds)) ? 0 : without + 1
                milliseconds += 1
            }
            print("signal \(signal): \(milliseconds) steps of 1 ms")
        }
    }

    private static func step(_ random: inout SeededGenerator) -> Step {
        if random.oneIn(3) {
            return .time(signals.randomElement(using: &random) ?? SIGKILL, .random(in: 0..<duration, using: &random))
        }
        // Most of the time a kill: it shows the most.
        let blow = Bool.random(using: &random) ? Step.Blow.kill : Step.Blow.allCases.randomElement(using: &random) ?? .kill
        return .call(blow, calls.randomElement(using: &random) ?? "", .random(in: 1...12, using: &random))
    }

    private static var relay: URL { Project.products.appending(path: "relay") }

    /// The agent is killed at a step of a launch that has a key. The client sends it again, and it is one command, opened once.
    @Test func keyedLaunchOfTheAgent() async throws {
        let pair = try await AgentPair()
        var agent = pair.agent
        var launch = 0
        /// - Returns: Whether the agent was killed.
        func strike(_ call: String, _ number: Int) async throws -> Bool {
            launch += 1
            let uri = "https://films.example/\(launch)"
            let tracer = try RelayProcess(
                [
                    "-f", "-qq", "-o", "/dev/null", "-e", "trace=\(call)", "-e", "inject=\(call):signal=SIGKILL:when=\(number)",
                    "-p", "\(agent.id)",
                ],
                executable: URL(filePath: "/usr/bin/strace"),
                environment: [:]
            )
            while try !Self.isTraced(agent.id) { try await Task.sleep(for: .milliseconds(5)) }
            let body = #"{"device":"TV","uri":"\#(uri)"}"#
            let key = "Idempotency-Key: launch-\(launch)"
            /// `nil`: the agent was killed.
            func send() async throws -> AgentAPI.Answer? {
                while true {
                    let answer = try? await AgentAPI.post(pair.desk, "/v1/launches", body, key, "Prefer: wait=30")
                    // The same key gets the same command's later state.
                    guard answer?.status == 202 else { return answer }
                }
            }
            let first = try await send()
            if let first {
                #expect(first.status == 200, "\(call) \(number): \(first.text)")
                tracer.send(SIGKILL)
            }
            _ = await tracer.finish()
            // The agent may also be killed after its answer.
            var answer = first == nil ? nil : try await send()
            let isKilled = answer == nil
            if isKilled {
                #expect(await agent.finish().status != 0)
                agent = try await pair.desk.agent()
                answer = try await send()
            }
            let again = try #require(answer)
            #expect(again.status == 200, "\(call) \(number): \(again.text)")
            if let first { #expect(try first.json["command"] as? String == again.json["command"] as? String) }
            // The next launch is the next event, so this one was opened once.
            let end = "https://films.example/end-\(launch)"
            _ = try await AgentAPI.post(pair.desk, "/v1/launches", #"{"device":"TV","uri":"\#(end)"}"#, "Prefer: wait=30")
            var opened: [String] = []
            while opened.last != end { opened.append(try JSON.object(try await pair.host.line())["uri"] as? String ?? "") }
            #expect(opened == [uri, end], "\(call) \(number)")
            return isKilled
        }
        let calls = ["pwrite64", "fdatasync", "fsync", "write", "writev", "sendmsg"]
        // All steps take half a minute, so they are always run.
        var kills = 0
        for call in calls {
            for number in 1..<200 {
                guard try await strike(call, number) else { break }
                kills += 1
            }
        }
        print("\(kills) kills in \(launch) launches")
        #expect(kills > 10)
    }

    /// Whether all threads of a process are traced.
    private static func isTraced(_ process: Int32) throws -> Bool {
        let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
        return threads.allSatisfy { thread in
            let status = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/status", encoding: .utf8)
            // A thread that has ended meanwhile has none.
            return status.map { !$0.contains("TracerPid:\t0\n") } ?? true
        }
    }

    @Test func firstStartOfTheRelay() async throws {
        try await Self.sweep(6) { step in
            let relayd = try await RelaydProcess()
            relayd.standardError = .nullDevice
            let arguments = ["serve", "--data-directory", relayd.directory.path, "--listen", relayd.host, "--tunnel-listen", "127.0.0.1:0"]
            let first = try step.start(RelaydProcess.executable, arguments, ["PATH": "/usr/bin:/bin"])
            try await step.strike(first)
            let isReady: Bool
            if case .time = step {
                first.send(SIGKILL)
                isReady = await first.finish().output.contains { $0.contains("http://") }
            } else {
                isReady = (try? await first.line { $0.contains("http://") }) != nil
                first.send(SIGKILL)
                _ = await first.finish()
            }
            do {
                _ = try await relayd.start()
                let device = try TestDevice()
                let list = try await relayd.run("account", "list", "--json")
                let accounts = try JSONSerialization.jsonObject(with: Data(list.utf8)) as? [[String: Any]]
                #expect(accounts?.count == 1, "\(step), seed \(Sweep.seed)")
                let name = try #require(accounts?.first?["name"] as? String)
                let joined = try await device.relay("join", try await relayd.run("invite", name))
                #expect(joined.status == 0, "\(step), seed \(Sweep.seed): \(joined.errorText)")
                #expect(try await relayd.stop() == 0)
            } catch {
                Issue.record("\(step), seed \(Sweep.seed): \(error)")
            }
            return !isReady
        }
    }

    @Test func firstStartOfADevice() async throws {
        let relayd = try await RelaydProcess()
        relayd.standardError = .nullDevice
        _ = try await relayd.start()
        var accounts = 0
        try await Self.sweep(8) { step in
            accounts += 1
            _ = try await relayd.run("account", "add", "A\(accounts)")
            let link = try await relayd.run("invite", "A\(accounts)")
            let device = try TestDevice()
            let process = try step.start(Self.relay, ["join", link, "--name", "Desk", "--home", device.home], device.environment)
            try await step.strike(process)
            let first = await process.finish()
            // The same link works again, whatever was stored, unless it has done its work.
            let again = try await device.relay("join", link, "--name", "Desk", "--json")
            let isDone = try (again.json["error"] as? [String: Any])?["code"] as? String == "alreadyJoined"
            #expect(again.status == 0 || isDone, "\(step), seed \(Sweep.seed): \(first.errorText); \(again.text)")
            let devices = try await device.relay("devices")
            #expect(devices.status == 0, "\(step), seed \(Sweep.seed): \(devices.errorText)")
            return first.status != 0
        }
    }

    @Test func refresh() async throws {
        let account = try await TestAccount()
        let device = try await account.device(named: "Desk")
        let folder = URL(filePath: device.home).appending(path: "accounts")
        let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder.path).first)
        let tokens = FileTokenStorage(directory: folder.appending(path: name).path)
        try await Self.sweep(8) { step in
            let old = try await tokens.withExclusiveAccess { tokens in
                tokens?.accessTokenExpires = 0
                return tokens?.refreshToken
            }
            let process = try step.start(Self.relay, ["devices", "--home", device.home], device.environment)
            try await step.strike(process)
            let first = await process.finish()
            var devices = try await device.relay("devices")
            // So many refreshes reach the issuer's limit for a network.
            while Sweep.isFull, devices.errorText.contains("HTTP 429") {
                try await Task.sleep(for: .seconds(5))
                devices = try await device.relay("devices")
            }
            #expect(devices.status == 0, "\(step), seed \(Sweep.seed): \(first.errorText); \(devices.errorText)")
            #expect(try tokens.read()?.refreshToken != old)
            return first.status != 0
        }
    }

    // MARK: Sign-ins with a browser

    /// Lets a program sign in that shows a page. It ends by the step after the browser has brought it the code, or before.
    private static func signIn(_ process: RelayProcess, _ browser: SignInBrowser, _ step: Step? = nil) async throws -> CommandOutput {
        if let page = try? JSON.object(try await process.line()), let url = (page["url"] as? String).flatMap({ URL(string: $0) }),
            let location = try? await browser.decide(app: url)
        {
            async let answer = try? SignInBrowser.request("GET", location)
            try await step?.strike(process)
            _ = await answer
        }
        return await process.finish()
    }

    @Test func login() async throws {
        let (account, browser) = try await LoginTests.bench()
        try await Self.sweep(6) { step in
            let device = try TestDevice()
            let arguments = ["login", account.relay.origin, "--browser", "--name", "Desk", "--json", "--yes", "--home", device.home]
            let first = try await Self.signIn(try step.start(Self.relay, arguments, device.environment), browser, step)
            var devices = try await device.relay("devices")
            // The code is lost with the process, and nothing else: the next login gives a device that works.
            if devices.status != 0 {
                let again = try await Self.signIn(try device.start("login", account.relay.origin, "--browser", "--json", "--yes"), browser)
                #expect(again.status == 0, "\(step), seed \(Sweep.seed): \(first.errorText); \(again.text) \(again.errorText)")
                devices = try await device.relay("devices")
            }
            #expect(devices.status == 0, "\(step), seed \(Sweep.seed): \(first.errorText); \(devices.errorText)")
            #expect(try await device.relay("logout").status == 0, "\(step), seed \(Sweep.seed)")
            return first.status != 0
        }
    }

    @Test func link() async throws {
        let (second, browser) = try await LoginTests.bench()
        let issuer = second.relay.origin + "/auth"
        let audience = try JoinLink(parsing: try await second.link(), plainHTTP: .allowed).relay
        let account = try await TestAccount(issuers: #"{"issuers":[{"issuer":"\#(issuer)","audience":"\#(audience)"}]}"#)
        let desk = try await account.device(named: "Desk")
        func linked() async throws -> [String] {
            let list = try JSONSerialization.jsonObject(with: Data(try await account.relay.run("account", "list", "--json").utf8))
            let identities = (list as? [[String: Any]] ?? []).flatMap { $0["identities"] as? [[String: Any]] ?? [] }
            return identities.filter { $0["issuer"] as? String == issuer }.compactMap { $0["subject"] as? String }
        }
        let arguments = ["account", "link", "--issuer", issuer, "--browser", "--json"]
        try await Self.sweep(4) { step in
            let process = try step.start(Self.relay, arguments + ["--home", desk.home], desk.environment)
            let first = try await Self.signIn(process, browser, step)
            // The device's own login is as before, and the identity can be linked.
            let devices = try await desk.relay("devices")
            #expect(devices.status == 0, "\(step), seed \(Sweep.seed): \(first.errorText); \(devices.errorText)")
            let again = try await Self.signIn(try RelayProcess(arguments + ["--home", desk.home], environment: desk.environment), browser)
            #expect(again.status == 0, "\(step), seed \(Sweep.seed): \(first.errorText); \(again.text) \(again.errorText)")
            let subjects = try await linked()
            #expect(subjects.count == 1, "\(step), seed \(Sweep.seed)")
            for subject in subjects {
                _ = try await account.relay.run("account", "unlink", "Anna", "--issuer", issuer, "--subject", subject)
            }
            return first.status != 0
        }
    }
}
#endif
