// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: localized("Move a relay between SQLite and PostgreSQL, check its databases, and finish an upgrade."),
        subcommands: [Copy.self, Check.self, Restored.self, FinishUpgrade.self]
    )

    struct Copy: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Copy a relay from SQLite into PostgreSQL, or back."),
            discussion: localized(
                """
                The relay must not run. The source stays as it is, and the receiver has everything or nothing. The keys stay in the data \
                directory.

                --to copies the databases of the data directory into an empty PostgreSQL database. --from copies a PostgreSQL database into a \
                data directory that has the relay's two keys and no databases.
                """
            )
        )

        @Option(
            help: ArgumentHelp(localized("The empty PostgreSQL database, such as postgres://relayd@db.example/relay."), valueName: "uri")
        )
        var to: String?
        @Option(help: ArgumentHelp(localized("The PostgreSQL database of the relay."), valueName: "uri")) var from: String?
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func validate() throws {
            guard (to == nil) != (from == nil) else { throw ValidationError("name one PostgreSQL database, with --to or --from") }
            if settings.store != nil {
                throw ValidationError("--store is not for a copy: one side is the data directory, the other --to or --from")
            }
            guard case .postgres? = try? StoreLocation(to ?? from ?? "") else {
                throw ValidationError("--to and --from take the URI of a PostgreSQL database")
            }
        }

        func run() throws {
            let path = try settings.read().dataDirectory
            let progress = TableProgress("copied")
            let copy: StoreCopy
            if let to {
                copy = try StoreCopy.make(from: DataDirectory(path, .existing), to: to, progress: progress.note)
            } else {
                copy = try StoreCopy.make(from: from ?? "", to: DataDirectory(path, .copied), progress: progress.note)
            }
            if json { return try printJSON(Result(relay: "\(copy.relay)", rows: copy.rows)) }
            try print("copied relay \(copy.relay): \(TableProgress.summary(copy.rows))")
            for line in next(path) { try print(line) }
        }

        private struct Result: Encodable {
            var relay: String
            var rows: [String: Int]
        }

        /// What the operator does next, in commands that can be pasted.
        private func next(_ path: String) -> [String] {
            func command(_ words: String) -> String {
                let config = settings.config.map { " --config \(ShellText.word($0))" } ?? ""
                let store = to.map { " --store \(ShellText.word($0))" } ?? ""
                return "  relayd \(words)\(store) --data-directory \(ShellText.word(path))\(config)"
            }
            func files(_ name: String) -> String { ShellText.word("\(path)/\(name)") + "*" }
            let old =
                to == nil
                ? "keep the PostgreSQL database until devices work again, and start no node with it: it does not get what happens from now on"
                : """
                keep the old files until devices work again, and start no relay without --store: they do not get what happens from now on. \
                Then remove them:
                  rm \(files("relay.sqlite")) \(files("issuer.sqlite"))
                """
            return [
                "next, check the copy:", command("store check"),
                "start the relay with your other settings\(to == nil ? ", and without RELAYD_STORE" : ""):", command("serve"), old,
            ]
        }
    }

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Decode every row of the relay's databases, whether it runs or not."),
            discussion: localized(
                """
                It writes nothing. Each row that cannot be decoded is printed with its table and key, never with its content, and the exit code \
                is then 1.
                """
            )
        )

        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() throws {
            let progress = TableProgress("checked")
            let damages = Damages()
            let check = try StoreCheck.run(settings.read(), progress: progress.note) { damage in
                damages.count += 1
                if json { damages.all.append(damage) } else { try print("damaged: \(damage.table) \(damage.key)") }
            }
            if json {
                try printJSON(Result(damaged: damages.all, rows: check.rows))
            } else {
                try print("checked \(TableProgress.summary(check.rows))")
            }
            if damages.count > 0 { throw DamagedRows(count: damages.count) }
        }

        private final class Damages {
            var count = 0
            var all: [StoreCheck.Damage] = []
        }

        private struct Result: Encodable {
            var damaged: [StoreCheck.Damage]
            var rows: [String: Int]
        }
    }

    struct Restored: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Say that a PostgreSQL database was restored to an earlier state."),
            discussion: localized(
                """
                Nodes notice by themselves that another server or a standby has taken over. They do not notice that a dump was loaded \
                into the same server, or that its disk was put back. Then do this before the first node starts: what was sent before \
                stays without a known outcome, and nothing false is said of it.
                """
            )
        )

        @OptionGroup var settings: DataDirectoryOptions

        func run() throws {
            try Nodes.setRestored(settings.read())
            try print("the database counts as restored; start the nodes")
        }
    }

    struct FinishUpgrade: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Let no node of an older version start any more, once none lives."),
            discussion: localized("Do it when all nodes have the new version. What only older versions need can then go.")
        )

        @OptionGroup var settings: DataDirectoryOptions

        func run() throws {
            let version = try Nodes.finishUpgrade(settings.read())
            try print("the upgrade is finished: nodes need version \(version) of the schema from now on")
        }
    }
}

private struct DamagedRows: Error, CustomStringConvertible {
    let count: Int
    var description: String { "\(count) rows cannot be decoded: mend or delete them in the database, or restore a backup" }
}

/// Says on standard error every few seconds how far a long command is.
private final class TableProgress {
    private let word: String
    private var last = ContinuousClock.now

    init(_ word: String) { self.word = word }

    func note(_ table: String, _ rows: Int) {
        // The clock is not read for each row.
        guard rows % 256 == 0, last.duration(to: .now) >= .seconds(3) else { return }
        last = .now
        StandardStream.note("\(word) \(rows) rows of \(table)")
    }

    static func summary(_ rows: [String: Int]) -> String {
        let (accounts, endpoints, commands) = (rows["accounts"] ?? 0, rows["endpoints"] ?? 0, rows["commands"] ?? 0)
        let all = rows.values.reduce(0, +)
        return "\(all) rows, with \(accounts) accounts, \(endpoints) endpoints, \(commands) commands and \(rows["user"] ?? 0) users"
    }
}
