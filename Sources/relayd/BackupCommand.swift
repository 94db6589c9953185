// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayComposition
import RelayProtocol
import RelayServer

struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Save the relay's keys and databases in one file, whether it runs or not.",
        discussion: """
            The file is a tar archive with mode 0600. Keep it as secret as the data directory: anyone who reads it can act as \
            the relay, sign tokens for every account, and read what the relay can read. With -, the archive goes to standard output, for example \
            to a program that encrypts it.
            """
    )

    @Argument(help: "The file to write, or - for standard output.") var file: String
    @Flag(help: "Replace the file if it exists.") var force = false
    @OptionGroup var settings: DataDirectoryOptions

    private var isToStandardOutput: Bool { file == "-" }

    func validate() throws {
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
        let relay: RelayID
        if isToStandardOutput {
            relay = try Backup.stream(of: directory, now: now) { try StandardStream.output.write($0) }
        } else {
            relay = try Backup.make(of: directory, at: file, replacing: force, now: now)
        }
        // For its log. Without a running relay there is none.
        _ = try? await AdminSocket.ask(.madeBackup, in: directory.path)
        let keys = "with the keys of relay \(relay): keep it secret"
        guard isToStandardOutput else { return try print("wrote \(file), \(keys)") }
        StandardStream.error.writeLine("wrote a backup to standard output, \(keys)")
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a file of `relayd backup` into the data directory.",
        discussion: """
            The relay must not run. The whole file is checked before anything is changed. Changes since the backup are lost: devices that \
            joined later need a new link, and later revocations have to be repeated. The command prints them, if it replaces a database that has \
            them.
            """
    )

    @Argument(help: "The file to read.") var file: String
    @Flag(help: "Restore even if the data directory is not empty; the relay's files in it are moved to a folder beside them.") var force =
        false
    @OptionGroup var settings: DataDirectoryOptions

    func run() async throws {
        let directory = try DataDirectory(settings.read().dataDirectory, .restored)
        let now = RelayClock.system.now().time
        let restored = try await Backup.restore(file, to: directory, replacing: force, now: now)
        try print("restored relay \(restored.relay) as it was \(Self.age(now.count - restored.made.count)) ago")
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

    private static func age(_ milliseconds: Int64) -> String {
        let minutes = max(0, milliseconds) / 60_000
        return minutes < 120 ? "\(minutes) min" : minutes < 2_880 ? "\(minutes / 60) h" : "\(minutes / 1_440) days"
    }
}
