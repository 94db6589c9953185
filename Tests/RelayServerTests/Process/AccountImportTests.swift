// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayComposition
import RelayProtocol
import RelayTesting
import Testing

/// `relayd account import`, with a relay that runs and without one.
@Suite(.timeLimit(.minutes(10))) struct AccountImportTests {
    private struct Line: Decodable {
        var name: String
        var account: String?
        var state: String
        var link: String?
    }

    private func run(_ relayd: RelaydProcess, _ table: String, _ arguments: String...) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(["account", "import", "-"] + arguments + ["--data-directory", relayd.directory.path], input: table)
    }

    private func lines(_ ended: RelaydProcess.Ended) throws -> [Line] {
        try JSONDecoder().decode([Line].self, from: Data(ended.output.utf8))
    }

    private func names(_ relayd: RelaydProcess) async throws -> [String] {
        struct Account: Decodable { var name: String }
        return try JSONDecoder().decode([Account].self, from: Data(try await relayd.run("account", "list", "--json").utf8)).map(\.name)
    }

    @Test func eachLinkSetsUpItsAccountAndASecondRunChangesNothing() async throws {
        let relayd = try await RelaydProcess()
        let log = FileManager.default.temporaryDirectory.appending(path: "import-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: log) }
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Bert")
        let before = Set(try await names(relayd))
        let table = "\u{FEFF}name\r\nAnna\r\n\"bert\"\r\n\r\n\"Carl, \"\"the\"\" third\"\r\n"
        // Nothing is made by a look.
        let planned = try lines(try await run(relayd, table, "--dry-run", "--json"))
        #expect(planned.map(\.state) == ["new", "exists", "new"] && planned.allSatisfy { $0.link == nil })
        #expect(Set(try await names(relayd)) == before)

        let first = try await run(relayd, table)
        #expect(first.status == 0 && first.error.isEmpty, "\(first.error)")
        let rows = first.output.split(separator: "\n").map(String.init)
        #expect(rows.count == 4 && rows[0] == "name,account,state,link")
        #expect(rows[2].hasPrefix("Bert,") && rows[2].hasSuffix(",exists,"))
        #expect(rows[3].hasPrefix(#""Carl, ""the"" third","#) && rows[3].contains(",added,\(relayd.origin)/auth/setup?token="))
        #expect(Set(try await names(relayd)) == before.union(["Anna", #"Carl, "the" third"#]))
        let again = try lines(try await run(relayd, table, "--json"))
        #expect(again.map(\.state) == ["exists", "exists", "exists"] && again.allSatisfy { $0.link == nil && $0.account != nil })

        // The link is Anna's.
        let link = try #require(rows[1].split(separator: ",").last.map(String.init))
        let browser = SignInBrowser(origin: relayd.origin)
        try await browser.setUp(link)
        #expect(try await relayd.stop() == 0)
        let token = try #require(link.split(separator: "=").last.map(String.init))
        #expect(try !String(contentsOf: log, encoding: .utf8).contains(token))
    }

    @Test func itWorksBeforeTheFirstStart() async throws {
        let relayd = try await RelaydProcess()
        let planned = try await run(relayd, "name\nAnna\n", "--dry-run")
        #expect(planned.status == 0 && planned.output == "name,account,state,link\nAnna,,new,\n")
        #expect(!FileManager.default.fileExists(atPath: relayd.directory.path))
        let refused = try await run(relayd, "name\nAnna\n")
        #expect(refused.status == 2 && refused.error.contains("--url"))
        let made = try lines(try await run(relayd, "name\nAnna\nBert\n", "--json", "--url", "https://relay.example"))
        #expect(made.map(\.state) == ["added", "added"])
        #expect(made.allSatisfy { $0.link?.hasPrefix("https://relay.example/auth/setup?token=") == true })
        #expect(try await names(relayd) == ["Anna", "Bert"])
    }

    /// More names than fit into one request to the relay.
    @Test func manyAccountsAreImported() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let table = "name\n" + (1...700).map { "Person number \($0) of a large organisation\n" }.joined()
        let made = try lines(try await run(relayd, table, "--json"))
        #expect(made.count == 700 && made.allSatisfy { $0.state == "added" } && Set(made.compactMap(\.link)).count == 700)
        #expect(try await relayd.stop() == 0)
    }

    @Test func everyBadRowIsNamedAndNothingIsChanged() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let before = try await names(relayd)
        let table = "name\nAnna\n\u{1B}[2J\nB\"ert\nCarl,x\n\"open \"y\nANNA\n \nDora\tx\n\"two\nlines\"\n\u{202E}Emil\n"
        for arguments in [[], ["--dry-run"]] {
            let process = RelaydProcess.process(["account", "import", "-"] + arguments + ["--data-directory", relayd.directory.path])
            let ended = try await ProcessRun.run(process, input: table)
            #expect(ended.status == 1 && ended.output.isEmpty, "\(ended)")
            let numbers = ended.error.matches(of: #/line (?<number>\d+): /#).compactMap { Int($0.number) }
            #expect(numbers == [3, 4, 5, 6, 7, 8, 9, 10, 12], "\(ended.error)")
            #expect(ended.error.contains("the same name as line 2") && ended.error.contains("nothing was changed"))
        }
        #expect(try await names(relayd) == before)
        for (table, word) in [
            ("", "has to name the column"), ("Anna\n", "'Anna'"), ("name,quota\nAnna,1\n", "'quota'"), ("\"name\nAnna\n", "not closed"),
        ] {
            let ended = try await run(relayd, table)
            #expect(ended.status == 1 && ended.error.contains(word), "\(table): \(ended.error)")
        }
        let large = try await run(relayd, "name\n" + String(repeating: "a", count: AccountImport.maximumBytes))
        #expect(large.status == 1 && large.error.contains("divide it"))
        let file = try await RelaydProcess.run(["account", "import", "/nowhere.csv", "--data-directory", relayd.directory.path])
        #expect(file.status == 1 && file.error.contains("/nowhere.csv"))
        #expect(try await names(relayd) == before)
        #expect(try await relayd.stop() == 0)
    }

    /// Any bytes are a table or have problems, and what is written is read again.
    @Test func anyBytesAreRead() {
        var random = SeededGenerator(seed: 7)
        let alphabet: [UInt8] = Array("\"\",,\r\n\nab\u{E9}".utf8) + [0, 0x80, 0xFF]
        for _ in 0..<5_000 {
            let bytes = (0..<Int.random(in: 0...24, using: &random)).map { _ in alphabet.randomElement(using: &random) ?? 0 }
            let table = CSVTable(bytes)
            #expect(table.rows.allSatisfy { $0.fields.count == table.header.count })
            let texts = (0..<3).map { _ in String((0..<4).map { _ in "\",\n\räb".randomElement(using: &random) ?? "a" }) }
            let again = CSVTable(Array("a,b,c\n\(CSVTable.line(texts))\r\n".utf8))
            #expect(again.rows.map(\.fields) == [texts], "\(texts)")
        }
    }
}
