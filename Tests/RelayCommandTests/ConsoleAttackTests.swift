// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayAgent
@testable import relay
@testable import relayd

/// No text that a program prints controls the terminal or the writing direction, whoever wrote it and by whatever way it came.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ConsoleAttackTests {
    private static let hostile = "x\u{1B}]0;evil\u{7}\u{1B}[31m\u{9B}2J\u{7F}\u{202E}\u{2066}\u{200B}\u{2028}y"

    /// The harmful characters of a text. Tabs and line feeds only shape a text of the program itself.
    private static func harmful(_ text: String) -> [String] {
        text.unicodeScalars.filter { $0 != "\n" && $0 != "\t" && !DisplayText.isPlain(String($0)) }.map { String($0.value, radix: 16) }
    }

    private func check(_ output: CommandOutput, _ words: [String]) {
        #expect(Self.harmful(output.text) == [] && Self.harmful(output.errorText) == [], "\(words)")
    }

    /// All commands of a program with their subcommands, as words.
    private func commands(of root: any ParsableCommand.Type, _ words: [String] = []) -> [[String]] {
        let all = root.configuration.subcommands
        return all.isEmpty ? [words] : all.flatMap { commands(of: $0, words + [$0._commandName]) }
    }

    /// A console that keeps what it would write.
    private func written(hasColours: Bool, isJSON: Bool, _ body: (Console) throws -> Void) rethrows -> (output: String, error: String) {
        let texts = Mutex((output: "", error: ""))
        let console = Console(
            isJSON: isJSON,
            hasColours: hasColours,
            isInteractive: true,
            output: { text in texts.withLock { $0.output += text } },
            error: { text in texts.withLock { $0.error += text } },
            data: { _ in }
        )
        try body(console)
        return texts.withLock { $0 }
    }

    private struct Lines: AgentResult {
        var text: String
        func lines(_ style: Style) -> [String] { ["a \(style.show(text, .good)) \(text)", text] }
    }

    @Test func consoleCleansEveryLineAndKeepsOnlyItsOwnColours() throws {
        for text in [Self.hostile, "\u{1B}1;32;", "\u{1B}[32mgreen\u{1B}[0m", "e\u{301};\u{301}"] {
            let plain = try written(hasColours: false, isJSON: false) { try $0.print(Lines(text: text)) }
            #expect(Self.harmful(plain.output) == [] && plain.output.split(separator: "\n").count == 2)
            let coloured = try written(hasColours: true, isJSON: false) { try $0.print(Lines(text: text)) }
            // The two sequences of this style are the only ones.
            #expect(coloured.output.split(separator: "\u{1B}").count == 3, "\(coloured.output.debugDescription)")
            #expect(coloured.output.contains("a \u{1B}[32m\(DisplayText.sanitized(text))\u{1B}[0m \(DisplayText.sanitized(text))\n"))
            let json = try written(hasColours: true, isJSON: true) { try $0.print(Lines(text: text)) }
            #expect(Self.harmful(json.output) == [] && json.output.split(separator: "\n").count == 1)
            #expect(try JSON.object(json.output)["text"] as? String == text)
            let note = written(hasColours: true, isJSON: false) { $0.note("one\n\(text)") }
            #expect(Self.harmful(note.error) == [])
            let failure = written(hasColours: true, isJSON: true) { $0.fail(AgentError("c\(text)", text, .failed)) }
            #expect(Self.harmful(failure.output) == [])
        }
    }

    /// Each command repeats what it does not understand, or does not find.
    @Test func everyCommandPrintsHostileArgumentsCleanly() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        for words in commands(of: Relay.self) where words != ["completions"] {
            for arguments in [[Self.hostile], ["--json", Self.hostile, Self.hostile]] {
                // Only a command that waits for signals, or that leaves the account, would act on these arguments.
                if ["agent", "host", "watch", "leave", "invite"].contains(words[0]), arguments.count == 1 { continue }
                check(try await desk.run(words + arguments), words + arguments)
            }
        }
        for words in commands(of: Relayd.self) where !["demo", "serve"].contains(words[0]) {
            let arguments = words + [Self.hostile, "--\(Self.hostile)", "--data-directory", desk.directory.path + "/none"]
            let output = try await RelayProcess(
                arguments,
                executable: Project.products.appending(path: "relayd"),
                environment: desk.environment
            ).finish()
            check(output, arguments)
        }
        check(try await desk.run([Self.hostile]), [])
        check(try await desk.run(["help", Self.hostile]), [])
    }

    /// The stored settings, and what a program, a service and a relay say.
    @Test func everyOtherTextIsPrintedCleanly() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        try FileManager.default.createDirectory(atPath: tv.directory.path + "/shared", withIntermediateDirectories: true)
        try Data("x".utf8).write(to: URL(filePath: tv.directory.path + "/shared/a\u{1B}[31m\u{202E}b"))
        let answer = try Settings.shell(#"printf '{"a":"\\u001b[31m\\u202e\\u009b"}'; printf '\033[31mlog\n' >&2"#)
        try tv.setAgent(
            """
            open: {command: \(try Settings.shell(#"printf 'why\033[31m' >&2; exit 1"#))}
            files: {folder: \(tv.directory.path)/shared}
            services: {bad: {command: \(answer)}}
            """
        )
        let agent = try tv.start("agent")
        _ = try await agent.line { $0.contains("ready") }
        for words in [
            ["launch", "TV", "https://a.example/"], ["call", "TV/org.device-relay.agent", "bad"],
            ["call", "TV/org.device-relay.agent", "bad", "--json"],
            ["fetch", "TV"], ["fetch", "TV", "-r", "-o", desk.directory.path + "/got"], ["fetch", "TV", "--json"], ["commands"],
            ["devices", "--all"],
        ] {
            check(try await desk.run(words), words)
        }
        agent.send(SIGTERM)
        check(await agent.finish(), ["agent"])
        // Names in the home, which another program may have written.
        let path = desk.home + "/relay.json"
        var object = try JSON.object(String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self))
        object["name"] = Self.hostile
        try JSONSerialization.data(withJSONObject: object).write(to: URL(filePath: path))
        for words in [["whoami"], ["accounts"], ["sessions"], ["doctor"], ["devices", "--all"], ["whoami", "--json"]] {
            check(try await desk.run(words), words)
        }
    }

    /// Bytes that are not text are no argument: the program would act on something else than what was given.
    @Test func argumentThatIsNotUTF8IsRefused() async throws {
        let device = try TestDevice()
        for (program, words) in [("relay", "whoami --home"), ("relayd", "account list --data-directory")] {
            let line = "exec '\(Project.products.appending(path: program).path)' \(words) $(printf 'a\\344b')"
            let output = try await RelayProcess(["-c", line], executable: URL(filePath: "/bin/sh"), environment: device.environment)
                .finish()
            #expect(output.status == 2 && output.errorText.contains("not valid UTF-8"), "\(program): \(output.errorText)")
        }
    }

    @Test func missingCommandIsAnError() async throws {
        let output = try await TestDevice().run([], withHome: false)
        #expect(output.status == 2 && output.output.isEmpty && output.errorText.contains("--help"))
    }
}
