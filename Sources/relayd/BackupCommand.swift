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
            The file is a tar archive with mode 0600. Keep it as secret as the data directory: anyone who reads it can act as
            the relay, sign tokens for every account, and read what the relay can read.
            """
    )

    @Argument(help: "The file to write.") var file: String
    @Flag(help: "Replace the file if it exists.") var force = false
    @OptionGroup var settings: DataDirectoryOptions

    func run() async throws {
        let directory = try DataDirectory(settings.read().dataDirectory, .existing)
        let relay = try Backup.make(of: directory, at: file, replacing: force, now: RelayClock.system.now().time)
        print("wrote \(file), with the keys of relay \(relay): keep it secret")
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restore a file of `relayd backup` into the data directory.",
        discussion: """
            The relay must not run. The whole file is checked before anything is changed. Changes since the backup are lost: devices that
            joined later need a new link, and later revocations have to be repeated.
            """
    )

    @Argument(help: "The file to read.") var file: String
    @Flag(help: "Restore even if the data directory is not empty; the relay's files in it are moved to a folder beside them.") var force =
        false
    @OptionGroup var settings: DataDirectoryOptions

    func run() async throws {
        let directory = try DataDirectory(settings.read().dataDirectory, .restored)
        let now = RelayClock.system.now().time
        let (relay, made, replaced) = try await Backup.restore(file, to: directory, replacing: force, now: now)
        print("restored relay \(relay) as it was \(Self.age(now.count - made.count)) ago")
        if let replaced { print("the old files are in \(replaced)") }
    }

    private static func age(_ milliseconds: Int64) -> String {
        let minutes = max(0, milliseconds) / 60_000
        return minutes < 120 ? "\(minutes) min" : minutes < 2_880 ? "\(minutes / 60) h" : "\(minutes / 1_440) days"
    }
}
