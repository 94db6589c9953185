// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation

/// Shows that no command is lost or handled twice, whichever processes are killed at any time: see `scripts/torture`.
@main struct TortureCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Issues launches and messages while relay, targets and senders are killed, and checks what became of each.",
        discussion: "Targets also sleep: they are stopped or suspended, and only a push starts them again.",
        subcommands: [Run.self, Send.self, Host.self],
        defaultSubcommand: Run.self
    )

    struct Run: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Run it, and tell in one line; exit 1 if a promise is broken.")

        @Option(help: "How many launches and messages.")
        var commands = 10_000
        @Option(help: "How many nodes the relay has. Several share a PostgreSQL primary with a standby; nodes and primary fail, too.")
        var nodes = 1
        @Option(help: "How many devices issue them.")
        var senders = 4
        @Option(help: "How many devices handle them.")
        var targets = 5
        @Option(help: "How many processes are killed.")
        var kills = 60
        @Option(help: "How many times a target sleeps until a push wakes it.")
        var naps = 60
        @Option(help: "How many times the stored state of the relay, a sender or a target goes back to an earlier copy.")
        var restores = 0
        @Option(
            help: "With several nodes: how often one stands still or is cut from the database, or the primary fails (half of the kills)."
        )
        var mishaps: Int?
        @Option(help: "A relayd of an earlier version, with which all nodes start. Each in turn is stopped and started as this version.")
        var older: String?
        @Flag(help: "Whether the devices have a local network, too, which is cut as often as half of the kills. scripts/torture makes it.")
        var paths = false
        @Option(help: "How many commands of one sender to one target are under way at most.")
        var window = 5
        @Option(help: "What the plan follows from; a random one unless set.")
        var seed: UInt64?
        @Option(help: "Seconds in which something has to happen.")
        var patience = 120
        @Option(help: "Where everything is kept: the ledger, the storages, the logs. Otherwise it is removed if all is well.")
        var directory: String?
        @Flag(help: "Tell it as JSON.")
        var json = false

        func validate() throws {
            guard nodes == 1 || restores == 0 else { throw ValidationError("--restores is for one node") }
            guard commands > 0, nodes > 0, senders > 0, targets > 0, kills >= 0, naps >= 0, restores >= 0, mishaps ?? 0 >= 0, window > 0,
                patience > 0
            else {
                throw ValidationError("the numbers have to be positive")
            }
        }

        func run() async throws {
            // A write to a killed process must not end this one.
            signal(SIGPIPE, SIG_IGN)
            let seed = seed ?? .random(in: 0...999_999)
            let plan = Plan(
                seed: seed,
                commands: commands,
                senders: senders,
                targets: targets,
                kills: kills,
                naps: naps,
                restores: restores,
                cuts: paths ? kills / 2 : nil,
                nodes: nodes,
                mishaps: mishaps,
                isUpgraded: older != nil
            )
            let home =
                directory.map { URL(filePath: $0) }
                ?? FileManager.default.temporaryDirectory.appending(path: "torture-\(UUID().uuidString)")
            let drive = try await Drive(
                plan,
                window: window,
                patience: .seconds(patience),
                directory: home,
                older: older.map { URL(filePath: $0) }
            )
            var (seconds, failure): (Double, String?) = (0, nil)
            do {
                seconds = try await drive.run() / .seconds(1)
            } catch {
                failure = "\(error)"
            }
            await drive.end()
            let summary = Summary(plan, await drive.ledger, seconds: seconds, failure: failure)
            if json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
                print(String(decoding: try encoder.encode(summary), as: UTF8.self))
            } else {
                for violation in summary.violations.prefix(40) { print(violation) }
                for line in try await drive.history() { print(line) }
                print(summary)
            }
            if summary.isKept, directory == nil {
                try? FileManager.default.removeItem(at: home)
            } else if !summary.isKept {
                try FileHandle.standardError.write(contentsOf: Data("see \(home.path)/ledger.jsonl\n".utf8))
                throw ExitCode(1)
            }
        }
    }
}
