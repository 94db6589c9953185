// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay
@testable import RelayAgent

/// Every kind of caller, URI and setting, with real programs that record what they get.
@Suite(.timeLimit(.minutes(10))) struct LaunchPolicyTests {
    private final class Machine {
        let folder = FileManager.default.temporaryDirectory.appending(path: "policy-\(UUID().uuidString)").path
        var opening = AgentConfiguration.Opening()
        var trustsNewDevices = false
        let counts = LaunchLimits()
        var answerers = Answerers()
        var finder: HandlerFinder?

        init() throws {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            opening.schemes = ["https", "x-open"]
            opening.ask = ["x-ask"]
            opening.command = recorder("opened", code: 0)
            opening.launchesPerMinute = 6_000
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        /// A program that records its last argument and the variables of a launch.
        func recorder(_ name: String, code: Int) -> Program {
            let script = #"printf '%s|%s|%s\n' "$2" "$DEVICE_RELAY_DEVICE_NAME" "$DEVICE_RELAY_DEVICE_NEW" >> "$0/$1"; exit \#(code)"#
            return Program(arguments: ["/bin/sh", "-c", script, folder, name, "{uri}"])
        }

        func lines(_ name: String) -> [String] {
            let text = FileManager.default.contents(atPath: "\(folder)/\(name)").map { String(decoding: $0, as: UTF8.self) } ?? ""
            return text.split(separator: "\n").map(String.init)
        }

        func launch(_ uri: String, isNew: Bool, name: String = "Phone") async throws -> LaunchAnswer {
            let policy = LaunchPolicy(
                configuration: opening,
                trustsNewDevices: trustsNewDevices,
                environment: ProgramEnvironment(),
                running: RunningPrograms(),
                counts: counts,
                answerers: answerers,
                finder: finder
            )
            let caller = AppServiceCaller(
                accountID: "me",
                deviceName: name,
                systemID: RemoteSystem.ID(SystemID(digest: Digest256(hashing: Array(name.utf8)))),
                endpoint: EndpointID(digest: Digest256(hashing: Array("key of \(name)".utf8))),
                appID: nil,
                isNew: isNew
            )
            let request = LaunchRequest(
                uri: try LaunchURI(uri),
                fallbackURI: nil,
                preferredAppIDs: [],
                caller: caller,
                cancellation: RequestCancellation(),
                extend: {}
            )
            return await policy.take(request)
        }
    }

    private func word(_ answer: LaunchAnswer) -> String {
        switch answer {
        case .launched: "launched"
        case .declined: "declined"
        case .failed: "failed"
        }
    }

    private enum Prompt: CaseIterable { case none, yes, no }

    /// The whole table of decisions.
    @Test func decisionDependsOnCallerSchemeHostAndAnswer() async throws {
        let uris: [(uri: String, isOpen: Bool, isAsked: Bool, isInternet: Bool)] = [
            ("https://films.example/1", true, false, true), ("https://127.0.0.1/1", true, false, false),
            ("https://router/1", true, false, false),
            ("x-open:1", true, false, false), ("x-ask:1", false, true, false), ("javascript:1", false, false, false),
            ("data:1", false, false, false), ("vbscript:1", false, false, false),
        ]
        for prompt in Prompt.allCases {
            for isNew in [false, true] {
                for trusts in [false, true] {
                    for (uri, isOpen, isAsked, isInternet) in uris {
                        let machine = try Machine()
                        machine.trustsNewDevices = trusts
                        if prompt != .none { machine.opening.prompt = machine.recorder("asked", code: prompt == .yes ? 0 : 1) }
                        let answer = word(try await machine.launch(uri, isNew: isNew))
                        let isUntrusted = isNew && !trusts
                        let asks = isAsked || isOpen && isUntrusted && !isInternet
                        let isNeverOpened = !isOpen && !isAsked
                        let expected = isNeverOpened ? "declined" : !asks || prompt == .yes ? "launched" : "declined"
                        let what = "\(uri), prompt \(prompt), new \(isNew), trusted \(trusts)"
                        #expect(answer == expected, "\(what)")
                        #expect(
                            machine.lines("opened").map { $0.prefix { $0 != "|" } } == (expected == "launched" ? [uri[...]] : []),
                            "\(what)"
                        )
                        let asked = asks && !isNeverOpened && prompt != .none
                        #expect(machine.lines("asked") == (asked ? ["\(uri)|Phone|\(isNew ? 1 : 0)"] : []), "\(what)")
                    }
                }
            }
        }
    }

    /// Links that the settings do not name open after a question, with the installed program, for known devices. The configured program opens
    /// what the settings name, also if another one is installed.
    @Test func installedProgramOpensWhatTheSettingsDoNotName() async throws {
        for others in AgentConfiguration.Opening.Others.allCases {
            for (scheme, isNew) in [
                ("x-other", false), ("x-other", true), ("x-ask", false), ("ssh", false), ("http", false), ("x-none", false),
            ] {
                let machine = try Machine()
                machine.opening.others = others
                machine.opening.prompt = machine.recorder("asked", code: 0)
                let folder = "\(machine.folder)/data/applications"
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let program = "\(folder)/program"
                try Data("#!/bin/sh\necho \"$1\" >> '\(machine.folder)/installed'\n".utf8).write(to: URL(filePath: program))
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program)
                let types = ["x-other", "x-ask", "ssh", "http"].map { "x-scheme-handler/\($0);" }.joined()
                try Data("[Desktop Entry]\nType=Application\nExec=\(program) %u\nMimeType=\(types)\n".utf8)
                    .write(to: URL(filePath: folder + "/a.desktop"))
                let variables = [
                    "XDG_DATA_HOME": machine.folder + "/data", "XDG_DATA_DIRS": "/no", "XDG_CONFIG_DIRS": "/no", "HOME": "/no",
                ]
                machine.finder = HandlerFinder(environment: variables)
                let uri = scheme == "http" ? "http://films.example/" : "\(scheme):1"
                let answer = word(try await machine.launch(uri, isNew: isNew))
                let (byProgram, byCommand) = (scheme == "x-other" && !isNew && others == .ask, scheme == "x-ask")
                let what = "\(uri), new \(isNew), others \(others)"
                #expect(answer == (byProgram || byCommand ? "launched" : "declined"), "\(what)")
                #expect(machine.lines("installed") == (byProgram ? [uri] : []), "\(what)")
                #expect(machine.lines("opened").count == (byCommand ? 1 : 0), "\(what)")
                #expect(machine.lines("asked").count == (byProgram || byCommand ? 1 : 0), "\(what)")
                // Without a configured program the installed one opens what is asked about.
                guard byCommand else { continue }
                machine.opening.command = nil
                #expect(word(try await machine.launch(uri, isNew: false)) == "launched" && machine.lines("installed") == [uri])
            }
        }
    }

    @Test func ratesOfKnownAndNewDevicesAreSeparate() async throws {
        let machine = try Machine()
        machine.opening.launchesPerMinute = 2
        var answers: [String] = []
        for (isNew, name) in [(true, "A"), (true, "A"), (true, "A"), (false, "A"), (false, "A"), (false, "A"), (false, "B")] {
            answers.append(word(try await machine.launch("https://films.example/", isNew: isNew, name: name)))
        }
        // Each known device has its own rate. What it launched while it was new is counted by the SDK, and does not count here.
        #expect(answers == ["launched", "launched", "launched", "launched", "launched", "declined", "launched"])
    }

    /// All new devices share one rate, which the SDK keeps.
    @Test(arguments: [0, 1, 6_000]) func rateOfNewDevicesIsThatOfTheSettings(perMinute: Int) {
        let console = Console(isJSON: true, hasColours: false, isInteractive: false, output: { _ in }, error: { _ in }, data: { _ in })
        let services = AgentServices(
            output: HostOutput(console: console),
            running: RunningPrograms(),
            counts: LaunchLimits(),
            answerers: Answerers(),
            console: console,
            log: { _ in },
            note: { _ in }
        )
        var configuration = AgentConfiguration()
        configuration.open.newLaunchesPerMinute = perMinute
        let app = services.registration(configuration)
        #expect(app.newCallers == .webPages && app.newCallerBounds.launchesPerMinute == perMinute)
    }

    @Test func programsThatKeepRunningAreLimited() async throws {
        let machine = try Machine()
        machine.opening.programs = 4
        machine.opening.command = Program(arguments: ["/bin/sh", "-c", #"echo $$ >> "$0/pids"; exec sleep 600"#, machine.folder])
        defer { for pid in machine.lines("pids").compactMap({ pid_t($0) }) { kill(pid, SIGKILL) } }
        var answers: [String] = []
        // New devices get a quarter.
        for isNew in [true, true, false] { answers.append(word(try await machine.launch("https://films.example/", isNew: isNew))) }
        #expect(answers == ["launched", "declined", "launched"])
    }

    @Test func nameOfTheCallerCannotControlThePrompt() async throws {
        let machine = try Machine()
        machine.opening.prompt = machine.recorder("asked", code: 0)
        _ = try await machine.launch("x-ask:1", isNew: false, name: "P\u{1B}[31m\u{202E}C")
        #expect(machine.lines("asked") == ["x-ask:1|P\u{FFFD}[31m\u{FFFD}C|0"])
    }
}
