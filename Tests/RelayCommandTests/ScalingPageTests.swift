// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux) && Postgres
import Foundation
import RelayTesting
import Testing

/// An operator follows docs/scaling.md with a real PostgreSQL server: all commands that need no container, with another database and the
/// numbers of the nodes that there are.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(
        if: TestMachine.isPossible && PostgresServer.isPossible,
        "root alone makes networks; needs Debian's packages iproute2, nftables and postgresql"
    )
)
struct ScalingPageTests {
    private struct Page {
        let server: PostgresServer
        var store: String { "'postgres:///relay?host=\(server.directory.path)&user=\(PostgresServer.user)'" }

        init() async throws {
            server = try await PostgresServer()
        }

        /// The commands of a block, one by one.
        func commands(_ block: String) -> [String] {
            block.replacing("\\\n", with: " ").split(separator: "\n").map { line in
                String(line).replacing(/'postgres:\/\/[^']+'|postgres:\/\/…/, with: store).replacing(" ...", with: "")
            }
        }

        func line(_ command: String) throws -> String {
            let programs = try #require(PostgresServer.programs)
            return "export PATH=$PATH:\(programs) PGHOST=\(server.directory.path) PGUSER=\(PostgresServer.user); \(command)"
        }

        func run(_ command: String, on machine: TestMachine) async throws -> CommandOutput {
            let ended = try await machine.run(try line(command))
            #expect(ended.status == 0, "\(command): \(ended.text) \(ended.errorText)")
            return ended
        }
    }

    private static func ready(_ relay: RelayProcess) async throws {
        do {
            _ = try await relay.line { $0.contains("ready at ") }
        } catch {
            Issue.record("\(await relay.finish().errorText)")
            throw error
        }
    }

    @Test func everyCommandWorks() async throws {
        let page = try await Page()
        let (a, b) = try TestMachine.network()

        // Two nodes.
        let begin = page.commands(try Project.block(1, of: "docs/scaling.md"))
        try #require(begin.count == 2)
        _ = try await page.run(begin[0], on: a)
        let first = try a.start("exec \(begin[1])")
        try await Self.ready(first)
        let folder = "second"
        let keys = ".local/share/relayd"
        _ = try await page.run("mkdir -m 700 \(folder) && cp \(keys)/relay.key \(keys)/issuer.key \(folder)", on: a)
        let second = try a.start(
            "exec \(begin[1].replacing("node1", with: "node2").replacing("8443", with: "9443")) --data-directory \(folder)"
        )
        try await Self.ready(second)
        _ = try await page.run("relayd account add Berta --store \(page.store)", on: a)

        let operating = page.commands(try Project.block(6, of: "docs/scaling.md")).map { $0.replacing("drain 3", with: "drain 2") }
        try #require(operating.count == 4)
        let listed = try await page.run(operating[0], on: a)
        #expect(
            listed.text.contains("https://node1.relay.example") && listed.text.contains("https://node2.relay.example"),
            "\(listed.text)"
        )
        for command in operating.dropFirst() { _ = try await page.run(command, on: a) }
        while true {
            let nodes = try await page.run(operating[0], on: a).text.split(separator: "\n")
            if nodes.contains(where: { $0.contains("node2") && $0.contains("drain") }) { break }
        }
        for node in [first, second] {
            node.send(SIGTERM)
            _ = await node.finish()
        }
        for command in page.commands(try Project.block(4, of: "docs/scaling.md")) { _ = try await page.run(command, on: a) }

        // A relay with SQLite moves into an empty database.
        let small = try b.start("exec relayd serve")
        try await Self.ready(small)
        _ = try await page.run("relayd account add Carl", on: b)
        small.send(SIGTERM)
        _ = await small.finish()
        _ = try await page.run("dropdb relay", on: a)
        for command in page.commands(try Project.block(5, of: "docs/scaling.md")) { _ = try await page.run(command, on: b) }
        let accounts = try await page.run("relayd account list --store \(page.store)", on: b)
        #expect(accounts.text.contains("Carl") && !accounts.text.contains("Berta"), "\(accounts.text)")
    }
}
#endif
