// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What the documents and texts tell people to type.
@Suite(.timeLimit(.minutes(10))) struct DocumentedCommandTests {
    /// What a program says of its commands (`--experimental-dump-help`).
    private struct Described: Decodable {
        struct Argument: Decodable {
            struct Name: Decodable { var name: String }
            var kind: String
            var names: [Name]?
        }
        var commandName: String
        var arguments: [Argument]?
        var subcommands: [Described]?
    }

    /// A command of a program, with its commands.
    private final class Command {
        let name: String
        let options: Set<String>
        let takesWords: Bool
        let commands: [String: Command]
        /// The command that is meant if none is named. Programs do not say which it is.
        let usual: Command?

        init(_ described: Described, of parent: String = "") {
            name = described.commandName
            options = Set((described.arguments ?? []).flatMap { ($0.names ?? []).map(\.name) } + ["help", "h", "version"])
            takesWords = described.arguments?.contains { $0.kind == "positional" } ?? false
            let path = parent + name
            commands = Dictionary((described.subcommands ?? []).map { ($0.commandName, Command($0, of: path + " ")) }) { first, _ in first }
            usual = Self.usual[path].flatMap { [commands] in commands[$0] }
        }

        private static let usual = [
            "relay asks": "list", "relay grants": "list", "relayd": "serve", "relayd account": "list", "relayd account key": "list",
            "relayd app": "list", "relayd backup": "make", "relayd endpoint": "list", "relayd node": "list",
        ]

        /// Why a line would be refused; `nil` if its commands and options exist.
        func problem(_ words: some Sequence<Substring>) -> String? {
            var (command, options, path, isEnded) = (self, options.union(usual?.options ?? []), name, false)
            for word in words {
                let word = String(word.trimmingPrefix(/['"]+/).replacing(/['",.;:)]+$/, with: ""))
                if ["|", ">", "&&", ";", "…", "...", "--"].contains(word) || word.first.map({ "#<>|[({&".contains($0) }) ?? false { break }
                if word.hasPrefix("-"), word != "-" {
                    let option = String(word.drop { $0 == "-" }.prefix { $0 != "=" })
                    guard option.isEmpty || option.allSatisfy(\.isNumber) || options.contains(option) else {
                        return "\(path) has no \(word)"
                    }
                } else if !isEnded, let next = command.commands[word] {
                    command = next
                    options.formUnion(next.options.union(next.usual?.options ?? []))
                    path += " " + word
                } else if !isEnded, !command.commands.isEmpty, !(command.usual?.takesWords ?? false), word != "help",
                    word.wholeMatch(of: /[a-z-]+/) != nil
                {
                    return "\(path) has no command \(word)"
                } else {
                    isEnded = true
                }
            }
            return nil
        }
    }

    private static func program(_ name: String) async throws -> Command {
        let process = Process()
        process.executableURL = Project.products.appending(path: name)
        process.arguments = ["--experimental-dump-help"]
        let text = try await ProcessRun.run(process).output
        struct Dump: Decodable { var command: Described }
        return Command(try JSONDecoder().decode(Dump.self, from: Data(text.utf8)).command)
    }

    /// The files of a folder of the project, or one file.
    private static func files(_ paths: String..., endings: [String]) -> [String] {
        paths.flatMap { path -> [String] in
            let inside = FileManager.default.enumerator(atPath: Project.root.appending(path: path).path)?.compactMap { $0 as? String } ?? []
            let all = inside.isEmpty ? [path] : inside.map { "\(path)/\($0)" }
            return all.filter { file in endings.contains { file.hasSuffix($0) } }
        }
    }

    /// Messages of the log.
    private static let messages = ["relay started", "relay stopping", "relay stopped"]

    /// The lines of a text that begin with a program's name: between backticks, and those of fenced commands.
    static func lines(of text: String, isDocument: Bool) -> [String] {
        var lines = text.matches(of: /`(relayd? [^`\n]+)`/).map { String($0.1) }
        guard isDocument else { return lines }
        for block in text.matches(of: /(?s)```(?:sh|console|text)\n(.*?\n)```/) {
            for line in block.1.replacing("\\\n", with: " ").split(separator: "\n") {
                for part in line.split(separator: /\||&&|;|\$\(|<<</) {
                    let part = part.trimmingCharacters(in: .whitespaces)
                    if let found = part.firstMatch(of: /(?:^|^\$ |^\w+  |-- |exec \w+ )(relayd? [^ ].*)$/) {
                        lines.append(String(found.1))
                    }
                }
            }
        }
        return lines
    }

    @Test func everyCommandAndOptionExists() async throws {
        let programs = ["relay": try await Self.program("relay"), "relayd": try await Self.program("relayd")]
        let documents = Self.files("docs", "Examples", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", endings: [".md"])
        let others = Self.files(
            "Sources",
            "Examples",
            "packaging",
            "deploy",
            endings: [".swift", ".json", ".service", ".yml", "postinst"]
        )
        var count = 0
        for file in documents + others {
            for line in Self.lines(of: try Project.text(file), isDocument: file.hasSuffix(".md")) where !Self.messages.contains(line) {
                let words = line.split(separator: " ")
                let program = try #require(programs[String(words[0])])
                count += 1
                if let problem = program.problem(words.dropFirst()) { Issue.record("\(file): '\(line)': \(problem)") }
            }
        }
        #expect(count > 500)
    }

    @Test(arguments: [
        ("relay lanch TV", "relay has no command lanch"), ("relay launch TV --speed 3", "relay launch has no --speed"),
        ("relayd account ad Anna", "relayd account has no command ad"), ("relay fetch TV photos -x", "relay fetch has no -x"),
    ])
    func wrongCommandsAreFound(line: String, problem: String) async throws {
        #expect(Self.lines(of: "Run `\(line)` there.", isDocument: false) == [line])
        #expect(Self.lines(of: "```sh\nA && \(line)\n```", isDocument: true) == [line])
        let words = line.split(separator: " ")
        #expect(try await Self.program(String(words[0])).problem(words.dropFirst()) == problem)
    }

    // MARK: Blocks

    /// What runs the fenced commands of each document, and how many blocks there are. Containers run nowhere: their commands run one by one,
    /// on this machine.
    private static let runners: [String: [(by: String, blocks: Int)]] = [
        "README.md": [("DemoTests", 1), ("ReadmeTests", 3), (".ci/run", 1)],
        "Examples/README.md": [("ExampleTests", 5)],
        "docs/agent.md": [("InstallTests", 1)],
        "docs/api.md": [("APIDocumentTests", 2)],
        "docs/cli.md": [("PairingTests", 1), ("VisibleTests", 1)],
        "docs/https.md": [("FirstUseTests", 3)],
        "docs/install.md": [("scripts/check-packages", 20), ("scripts/check-systems", 1), ("ComposeTests", 1)],
        "docs/operating.md": [("OperatingTests", 19), ("scripts/check-packages", 1)],
        "docs/scaling.md": [("ScalingPageTests", 4), ("ComposeTests", 2)],
    ]

    @Test func everyBlockHasItsRunner() throws {
        let tests = Set(
            Self.files("Tests", endings: ["Tests.swift"]).map { URL(filePath: $0).deletingPathExtension().lastPathComponent }
        )
        var found: [String: Int] = [:]
        for file in Self.files("docs", "Examples", "README.md", "CONTRIBUTING.md", "SECURITY.md", endings: [".md"]) {
            let count = try ["sh", "console"].map { try Project.blocks($0, of: file).count }.reduce(0, +)
            if count > 0 { found[file] = count }
        }
        #expect(found == Self.runners.mapValues { $0.map(\.blocks).reduce(0, +) })
        for runner in Self.runners.values.joined().map(\.by) {
            let isThere = tests.contains(runner) || FileManager.default.fileExists(atPath: Project.root.appending(path: runner).path)
            #expect(isThere, "\(runner)")
        }
    }
}
