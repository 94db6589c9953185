// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// What the documents and texts tell people to type.
@Suite(.timeLimit(.minutes(10))) struct DocumentedCommandTests {
    /// A command of a program, with its commands.
    private final class Command {
        let name: String
        let options: Set<String>
        let takesWords: Bool
        let commands: [String: Command]
        /// The command that is meant if none is named.
        let usual: Command?

        init(_ described: DescribedCommand, of parent: String = "") {
            name = described.commandName
            options = Set((described.arguments ?? []).flatMap { ($0.names ?? []).map(\.name) } + ["help", "h", "version"])
            takesWords = described.arguments?.contains { $0.kind == "positional" } ?? false
            let path = parent + name
            commands = Dictionary((described.subcommands ?? []).map { ($0.commandName, Command($0, of: path + " ")) }) { first, _ in first }
            usual = DescribedCommand.usual[path].flatMap { [commands] in commands[$0] }
        }

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

    private static func program(_ name: String) async throws -> Command { Command(try await DescribedCommand.program(name)) }

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
        for block in text.matches(of: /(?s)```(?:sh|console)\n(.*?\n)```/) {
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

    /// Who takes which blocks of each document, by their numbers from 1.
    private static let runners: [String: [String: Set<Int>]] = [
        "Examples/README.md": ["ExampleTests": all(of: "Examples/README.md")],
        "README.md": [
            "DemoTests": [1], "TwoMachinesTests": [2], "FirstUseTests": [3], "PairingTests": [4], "ReadmeTests": [5, 6, 7, 8],
        ],
        "docs/agent.md": ["InstallTests": [1]],
        "docs/api.md": ["APIDocumentTests": [1, 2, 3, 4]],
        "docs/cli.md": ["FirstUseTests": [1], "PairingTests": [2], "VisibleTests": [3]],
        "docs/https.md": ["FirstUseTests": [1, 2, 3, 4]],
        "docs/install.md": [
            "scripts/check-packages": Set(1...17).union([21]), "scripts/check-systems": [2, 3, 4, 5, 17, 19, 20],
            "scripts/check-builds": [22],
        ],
        "docs/operating.md": [
            "OperatingTests": all(of: "docs/operating.md").subtracting([12]), "scripts/check-packages": [11, 12, 16],
        ],
        "docs/scaling.md": ["ScalingPageTests": [1, 4, 5, 6], "ComposeTests": [2, 3]],
    ]

    private static func all(of page: String) -> Set<Int> { (try? numbers(of: page)) ?? [] }

    /// Lines that no test can run as they are, and what is checked instead.
    private struct Left {
        var page: String
        var block: Int
        var beginnings: [String]
        var reason: String
        var instead: String
        var by: String
    }

    private static let left = [
        Left(
            page: "README.md",
            block: 1,
            beginnings: ["scripts/demo"],
            reason: "a second build would wait for the one of the tests",
            instead: "the script runs with a `swift` that names what is built",
            by: "DemoTests"
        ),
        Left(
            page: "README.md",
            block: 8,
            beginnings: ["scripts/test"],
            reason: "it is what runs the tests",
            instead: "CI runs the same script",
            by: "ReadmeTests"
        ),
        Left(
            page: "Examples/README.md",
            block: 1,
            beginnings: ["swift build"],
            reason: "a second build would wait for the one of the tests",
            instead: "the examples of that build run",
            by: "ExampleTests"
        ),
        Left(
            page: "docs/agent.md",
            block: 1,
            beginnings: ["relay agent install"],
            reason: "a test has no session of a user, and no launchd",
            instead: "a script does what the unit says; the other description is read as a property list",
            by: "InstallTests"
        ),
        Left(
            page: "docs/https.md",
            block: 1,
            beginnings: ["apt-get install caddy", "systemctl reload caddy"],
            reason: "a test changes no package and no service of its machine",
            instead: "scripts look for the program, and start it",
            by: "FirstUseTests"
        ),
        Left(
            page: "docs/install.md",
            block: 18,
            beginnings: ["dnf install"],
            reason: "no Fedora is there",
            instead: "the programs run with Debian's packages of the same libraries",
            by: "scripts/check-systems"
        ),
        Left(
            page: "docs/install.md",
            block: 21,
            beginnings: ["docker build", "docker run", "docker exec"],
            reason: "no container engine is there",
            instead: "the image's lines, and its command with the block's settings, run in a root folder",
            by: "scripts/check-packages"
        ),
        Left(
            page: "docs/scaling.md",
            block: 2,
            beginnings: ["docker compose build", "docker compose up", "docker compose exec"],
            reason: "no container engine is there",
            instead: "each service runs its command at an address of its own, and nodes the programs of the archive",
            by: "ComposeTests"
        ),
        Left(
            page: "docs/scaling.md",
            block: 3,
            beginnings: ["docker compose rm", "docker compose exec"],
            reason: "no container engine is there",
            instead: "the primary is killed, and the commands run in the standby's place",
            by: "ComposeTests"
        ),
    ]

    /// Documents whose commands take hours, or other machines: those for measurements and fuzzing.
    private static let elsewhere: Set<String> = ["Benchmarks/README.md", "FuzzTesting/README.md"]

    private static func documents() throws -> [String] {
        let folders = ["Benchmarks", "Examples", "FuzzTesting", "Sources", "deploy", "docs", "packaging"]
        let top = try FileManager.default.contentsOfDirectory(atPath: Project.root.path).filter { $0.hasSuffix(".md") }
        return top + folders.flatMap { files($0, endings: [".md"]) }.filter { !elsewhere.contains($0) }
    }

    /// What the source of a test or a script takes from documents: the blocks that it names literally, outside of comments. A test that
    /// takes a whole document may leave out headings that a script follows.
    static func taken(by source: String, isScript: Bool) throws -> [String: Set<Int>] {
        var taken: [String: Set<Int>] = [:]
        var page = "docs/install.md"
        let others = source.firstMatch(of: /followedElsewhere = \[(?<headings>[^\]]*)\]/)?.headings.matches(of: /"([^"]+)"/).map(\.1) ?? []
        for line in source.split(separator: "\n") where !line.trimmingPrefix(while: \.isWhitespace).hasPrefix(isScript ? "#" : "//") {
            if isScript {
                // Scripts follow one page at a time, and name the heading and the number below it.
                if let other = line.wholeMatch(of: /page=(?<page>\S+\.md)/) { page = String(other.page) }
                for match in line.matches(of: /(?:\bblock|\bfollow \w+|\bchange|\boperate) "(?<heading>[A-Z][\w ]+)" (?<number>[0-9]+)/) {
                    let blocks = try Project.fences(of: page).filter(\.isTyped)
                    let below = blocks.indices.filter { blocks[$0].heading == match.heading }
                    guard let number = Int(match.number), number > 0, number <= below.count else {
                        throw Project.NoBlock(page: "\(page) below \(match.heading)", number: Int(match.number) ?? 0)
                    }
                    taken[page, default: []].insert(below[number - 1] + 1)
                }
            } else {
                for match in line.matches(of: /Project\.block\((?<number>[0-9]+), of: "(?<page>[^"]+)"\)/) {
                    if let number = Int(match.number) { taken[String(match.page), default: []].insert(number) }
                }
                for match in line.matches(of: /Project\.fences\(of: "(?<page>[^"]+)"\)/) {
                    let blocks = try Project.fences(of: String(match.page)).filter(\.isTyped)
                    let numbers = blocks.indices.filter { !others.contains(Substring(blocks[$0].heading)) }.map { $0 + 1 }
                    taken[String(match.page), default: []].formUnion(numbers)
                }
            }
        }
        return taken
    }

    private static func numbers(of page: String) throws -> Set<Int> {
        Set(1..<(try Project.fences(of: page).count(where: \.isTyped) + 1))
    }

    /// The sources that may be runners, by their names in `runners`.
    private static func sources() -> [(name: String, file: String, isScript: Bool)] {
        let tests = files("Tests", endings: ["Tests.swift"]).filter { !$0.hasSuffix("/DocumentedCommandTests.swift") }
        let scripts = ((try? FileManager.default.contentsOfDirectory(atPath: Project.root.path + "/scripts")) ?? []).filter {
            !$0.contains(".")
        }
        return tests.map { (URL(filePath: $0).deletingPathExtension().lastPathComponent, $0, false) }
            + scripts.map { ("scripts/\($0)", "scripts/\($0)", true) }
    }

    @Test func everyBlockHasItsRunner() throws {
        var taken: [String: [String: Set<Int>]] = [:]
        for (name, file, isScript) in Self.sources() {
            for (page, numbers) in try Self.taken(by: try Project.text(file), isScript: isScript) {
                taken[page, default: [:]][name] = numbers
            }
        }
        for page in Set(taken.keys).union(Self.runners.keys).sorted() {
            #expect(taken[page] == Self.runners[page], "\(page)")
        }
        for page in try Self.documents() {
            let fences = try Project.fences(of: page)
            let blocks = fences.filter(\.isTyped)
            for (index, block) in blocks.enumerated() where !(Self.runners[page] ?? [:]).values.contains(where: { $0.contains(index + 1) })
            {
                let beginnings = Self.left.filter { $0.page == page && $0.block == index + 1 }.flatMap(\.beginnings)
                let lines = block.code.split(separator: "\n")
                #expect(
                    lines.allSatisfy { line in beginnings.contains { line.hasPrefix($0) } },
                    "\(page), block \(index + 1) has no runner"
                )
            }
            for number in (Self.runners[page] ?? [:]).values.joined() { #expect(number <= blocks.count, "\(page) has no block \(number)") }
            // What is typed says so.
            for fence in fences where !fence.isTyped {
                #expect(!fence.language.isEmpty, "\(page), below \(fence.heading): the fence names no language")
                guard fence.language == "text" else { continue }
                for line in fence.code.split(separator: "\n") { #expect(!Self.isTyped(line), "\(page): a command in a text: \(line)") }
            }
        }
    }

    private static func isTyped(_ line: Substring) -> Bool {
        line.prefixMatch(of: #/(?:\w+  |\$ )?(?:relayd?|apt-get|cp|curl|dnf|docker|scripts/\w+|sudo|systemctl|tar) /#) != nil
    }

    @Test func whatRunsNowhereIsThere() throws {
        let names = Set(Self.sources().map(\.name))
        for left in Self.left {
            let lines = try Project.block(left.block, of: left.page).split(separator: "\n")
            for beginning in left.beginnings { #expect(lines.contains { $0.hasPrefix(beginning) }, "\(left)") }
            #expect(names.contains(left.by) && !left.reason.isEmpty && !left.instead.isEmpty, "\(left)")
        }
    }

    @Test func takenBlocksAreFound() throws {
        let test = """
            // try Project.block(1, of: "docs/cli.md")
            let lines = try Project.block(2, of: "docs/cli.md"), all = try Project.fences(of: "docs/agent.md")
            """
        #expect(try Self.taken(by: test, isScript: false) == ["docs/cli.md": [2], "docs/agent.md": [1]])
        #expect(try Self.taken(by: "let followedElsewhere = [\"The agent\"]\n\(test)", isScript: false)["docs/agent.md"] == [])
        let script = """
            # follow root "The relay" 1
            follow root "The relay" 2
            page=docs/agent.md
            block "The agent" 1
            """
        let relay = try #require(try Project.fences(of: "docs/install.md").filter(\.isTyped).firstIndex { $0.heading == "The relay" })
        #expect(try Self.taken(by: script, isScript: true) == ["docs/install.md": [relay + 2], "docs/agent.md": [1]])
        #expect(throws: Project.NoBlock.self) { try Self.taken(by: #"block "The relay" 99"#, isScript: true) }
        #expect(Self.isTyped("A  relay invite") && Self.isTyped("$ curl x") && !Self.isTyped("  relay (commands, agent)"))
    }
}
