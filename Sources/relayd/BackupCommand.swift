// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer
import RelayStorage

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: localized("Save the relay's keys and databases in one file, whether it runs or not, and check such files."),
        discussion: localized("`relayd backup FILE` is `relayd backup make FILE`."),
        subcommands: [Make.self, Check.self],
        defaultSubcommand: Make.self
    )

    struct Make: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Save the relay's keys and databases in one file, whether it runs or not."),
            discussion: localized(
                """
                The file is a tar archive with mode 0600. Keep it as secret as the data directory: anyone who reads it can act as \
                the relay, sign tokens for every account, and read what the relay can read. With -, the archive goes to standard output, for example \
                to a program that encrypts it.

                With --keep, the path is that of a folder. The backup gets a name with the relay's id and the time, and older backups that the same \
                command made there for this relay are removed. Every other file stays.
                """
            )
        )

        @Argument(help: .text("The file to write, or - for standard output; with --keep a folder.")) var file: String
        @Flag(help: .text("Replace the file if it exists.")) var force = false
        @Option(help: ArgumentHelp(localized("How many backups remain in the folder, with the new one."), valueName: "count")) var keep:
            Int?
        @OptionGroup var settings: DataDirectoryOptions

        private var isToStandardOutput: Bool { file == "-" }

        func validate() throws {
            if let keep {
                guard keep >= 1 else { throw ValidationError("--keep is at least 1: the new backup remains") }
                if force || isToStandardOutput {
                    throw ValidationError("--keep is for a folder, where each backup has a name of its own")
                }
            }
            guard isToStandardOutput else { return }
            if force { throw ValidationError("--force is for a file") }
            if StandardStream.output.isTerminal {
                throw ValidationError(
                    "a backup contains keys, and is not shown on a terminal: name a file, or a program with `relayd backup - | …`"
                )
            }
        }

        func run() async throws {
            let directory = try DataDirectory(settings.read().dataDirectory, .existing)
            let now = RelayClock.system.now().time
            var (path, removed): (String, [String]) = (file, [])
            let relay: RelayID
            if isToStandardOutput {
                relay = try Backup.stream(of: directory, now: now) { try StandardStream.output.write($0) }
            } else if let keep {
                let added = try BackupFolder(file).add(directory, keep: keep, now: now)
                (relay, path, removed) = (added.relay, added.path, added.removed)
            } else {
                relay = try Backup.make(of: directory, at: file, replacing: force, now: now)
            }
            // For its log. Without a running relay there is none.
            _ = try? await AdminSocket.ask(.madeBackup, in: directory.path)
            let keys = "with the keys of relay \(relay): keep it secret"
            guard !isToStandardOutput else { return StandardStream.note("wrote a backup to standard output, \(keys)") }
            try print("wrote \(path), \(keys)")
            for path in removed { try print("removed \(path)") }
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Check whether a backup, or each one in a folder, is whole and can be restored by this version."),
            discussion: localized(
                """
                It makes the checks of `relayd restore`, and needs no data directory. The files are unpacked beside the backup meanwhile. In a folder \
                it checks every file whose name ends with .tar, the newest backup first. The exit code is 1 if one of them is not whole, or none is \
                there.
                """
            )
        )

        @Argument(help: .text("A file of `relayd backup`, or a folder of such files.")) var path: String
        @Flag(help: .text("Print a JSON array.")) var json = false

        func run() async throws {
            let files = try FileFacts(path: path, followsLinks: true)?.isFolder == true ? BackupFolder(path).entries().map(\.path) : [path]
            guard !files.isEmpty else {
                throw NotWhole(description: "no backup is in \(path): make one with `\(ShellText.command("relayd backup --keep 7", path))`")
            }
            let now = RelayClock.system.now().time
            var checked: [CheckedBackup] = []
            for file in files {
                let backup = try CheckedBackup(file, now)
                checked.append(backup)
                if !json { try print(backup.line(now)) }
            }
            if json { try printJSON(checked) }
            let broken = checked.count { !$0.isWhole }
            guard broken == 0 else {
                throw NotWhole(description: "\(broken) of \(checked.count) cannot be restored: make a new backup, and see to the disk")
            }
        }
    }

    private struct NotWhole: Error, CustomStringConvertible {
        let description: String
    }
}

/// What `relayd backup check` finds.
private struct CheckedBackup: Encodable {
    let file: String
    let isWhole: Bool
    var relay: String?
    /// Milliseconds since 1970.
    var made: Int64?
    var version: String?
    /// Why it cannot be restored.
    var problem: String?

    private enum CodingKeys: String, CodingKey {
        case file, relay, made, version, problem
        case isWhole = "whole"
    }

    /// - Throws: Why it cannot be checked here, which says nothing of the backup.
    init(_ file: String, _ now: Milliseconds) throws {
        self.file = file
        do {
            let description = try Backup.check(file, now: now)
            (relay, made, version) = (description.relay, description.made, description.version)
            isWhole = true
        } catch let error as StorageError where ![.notReadable, .damaged].contains(error.problem) {
            throw error
        } catch {
            problem = if case .damaged(_, let what)? = error as? BackupError { what } else { "\(error)" }
            isWhole = false
        }
    }

    func line(_ now: Milliseconds) -> String {
        guard let relay, let made else { return "not whole  \(file)  \(problem ?? "")" }
        let by = version.map { ", by relayd \($0)" } ?? ""
        return "whole      \(file)  relay \(relay), made \(Age.text(since: made, now: now)) ago\(by)"
    }
}

/// How long ago something was, for people.
enum Age {
    /// - Parameter time: Milliseconds since 1970.
    static func text(since time: Int64, now: Milliseconds) -> String {
        let (difference, overflows) = now.count.subtractingReportingOverflow(time)
        let minutes = overflows ? 0 : max(0, difference) / 60_000
        return minutes < 120 ? "\(minutes) min" : minutes < 2_880 ? "\(minutes / 60) h" : "\(minutes / 1_440) days"
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: localized("Restore a file of `relayd backup` into the data directory."),
        discussion: localized(
            """
            The relay must not run. The whole file is checked before anything is changed. Changes since the backup are lost: devices that \
            joined later need a new link, and later revocations have to be repeated. The command prints them, if it replaces a database that has \
            them.
            """
        )
    )

    @Argument(help: .text("The file to read.")) var file: String
    @Flag(help: .text("Restore even if the data directory is not empty; the relay's files in it are moved to a folder beside them."))
    var force =
        false
    @OptionGroup var settings: DataDirectoryOptions

    func run() async throws {
        let directory = try DataDirectory(settings.read().dataDirectory, .restored)
        let now = RelayClock.system.now().time
        let restored = try Backup.restore(file, to: directory, replacing: force, now: now)
        try print("restored relay \(restored.relay) as it was \(Age.text(since: restored.made.count, now: now)) ago")
        if let replaced = restored.replaced { try print("the old files are in \(replaced)") }
        for line in restored.losses.map(Self.lines) ?? Self.unknownLosses { try print(line) }
    }

    private static let unknownLosses = [
        "lost: what happened since. Devices that joined since need a new link (`relayd invite`)",
        "revocations since are lost, too: repeat them with `relayd endpoint revoke` before others can reach the relay",
    ]

    private static func lines(_ losses: BackupLosses) -> [String] {
        func line(_ endpoint: BackupLosses.Endpoint, _ text: String) -> String {
            let names = [endpoint.account, endpoint.device].filter { !$0.isEmpty }.joined(separator: ", ")
            return "lost: \(text) of \(endpoint.id)\(names.isEmpty ? "" : " (\(names))")"
        }
        var lines = losses.accounts.map { "lost: the account \($0), with its devices" }
        lines += losses.joined.map { line($0, "the join") + "; it needs a new link" }
        lines += losses.revoked.map { line($0, "the revocation") + "; repeat it: relayd endpoint revoke \($0.id)" }
        if lines.isEmpty { lines.append("no account, device or revocation is lost") }
        if !losses.revoked.isEmpty { lines.append("repeat revocations before others can reach the relay") }
        return lines + ["commands since are sent again by their senders"]
    }
}
