// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer
import RelayStorage

#if Postgres
import RelayPostgres
#endif

/// What is stored, and where.
extension RelayDoctor {
    /// With less, the relay soon accepts nothing.
    private static let leastFreeBytes: Int64 = 256 << 20

    // MARK: The database

    func database(_ key: RelayKey) -> Check {
        do {
            switch configuration.store {
            case .dataDirectory: return try file()
            case .postgres(let uri): return try server(uri, key)
            }
        } catch {
            return Check(
                .database,
                .failed,
                "\(error)",
                advice: "see each damaged row: relayd store check. If it is lost, restore a backup: relayd restore FILE --force"
            )
        }
    }

    private func file() throws -> Check {
        // Looks through all of it.
        try RelayTables.snapshot(in: configuration.dataDirectory) { _ in }
        return Check(.database, .ok, "\(RelayTables.fileName) is whole, \(Self.size(databaseBytes))")
    }

    private var databaseBytes: Int64 {
        ["relay.sqlite", "relay.sqlite-wal", "issuer.sqlite", "issuer.sqlite-wal"].reduce(0) { sum, name in
            sum + (FileFacts(path: "\(configuration.dataDirectory)/\(name)", followsLinks: false)?.size ?? 0)
        }
    }

    private func server(_ uri: String, _ key: RelayKey) throws -> Check {
        #if Postgres
        let location = try PostgresLocation(uri)
        do throws(StoreError) {
            let found = try location.prepare()
            guard found == nil || found == key.id else { throw StoreError.ofOtherRelay(found.map { "\($0)" } ?? "", own: "\(key.id)") }
            let facts = try location.facts()
            let text = "PostgreSQL \(facts.version) answers, with \(facts.standbys == 1 ? "1 standby" : "\(facts.standbys) standbys")"
            guard facts.isSynchronous else {
                return Check(
                    .database,
                    .warning,
                    "\(text); commits wait for none of them, so what was promised is lost with this server's disk",
                    advice: "docs/scaling.md says how a synchronous standby is set up (synchronous_standby_names)"
                )
            }
            return Check(.database, .ok, "\(text), and commits wait for one")
        } catch {
            return Check(
                .database,
                .failed,
                "\(error)",
                advice: "see what the database's server says: journalctl --unit postgresql --lines 20"
            )
        }
        #else
        throw ConfigurationError.withoutPostgres
        #endif
    }

    // MARK: Disks

    func disks() -> [Check] {
        let needed = max(Self.leastFreeBytes, databaseBytes.multipliedReportingOverflow(by: 3).partialValue)
        // A backup is as large as the databases, and its draft as well.
        var checks = [disk(configuration.dataDirectory, "the data directory", needed)]
        if let backups { checks.append(disk(backups, "the backups", needed)) }
        return checks
    }

    private func disk(_ path: String, _ what: String, _ needed: Int64) -> Check {
        guard let free = (try? OpenFile.folder(at: path))?.freeBytes else {
            return Check(.disk, .skipped, "the free space at \(path) cannot be read", advice: ShellText.command("df -h", path))
        }
        let text = "\(Self.size(free)) are free for \(what)"
        guard free < needed else { return Check(.disk, .ok, text) }
        return Check(
            .disk,
            free < Self.leastFreeBytes ? .failed : .warning,
            free < Self.leastFreeBytes ? "\(text): a relay with a full disk accepts nothing" : "\(text): too little for a backup beside it",
            advice: "see what takes the space: \(ShellText.command("du -xh --max-depth 1", path))"
        )
    }

    static func size(_ bytes: Int64) -> String {
        switch bytes {
        case ..<(1 << 20): "\(bytes >> 10) KiB"
        case ..<(10 << 30): "\(bytes >> 20) MiB"
        default: "\(bytes >> 30) GiB"
        }
    }

    // MARK: The clock

    /// The relay's files were written by this clock. A clock that has gone back shows by them.
    func clock() -> [Check] {
        let names = (try? PrivateDirectory.names(in: configuration.dataDirectory)) ?? []
        let last = names.compactMap { FileFacts(path: "\(configuration.dataDirectory)/\($0)", followsLinks: false)?.modifiedMilliseconds }
            .max()
        guard let last, last > now.count else { return [Check(.clock, .ok, "it is not behind what the relay has written")] }
        let difference = ClockDifference(own: now, other: Milliseconds(clamping: last))
        guard difference.status != .ok else { return [Check(.clock, .ok, "it is not behind what the relay has written")] }
        return [
            Check(.clock, difference.status, "it is \(difference.text) what the relay has written", advice: ClockDifference.advice)
        ]
    }

    // MARK: Backups

    func backup(_ key: RelayKey) -> Check {
        guard configuration.store == .dataDirectory else {
            return Check(.backup, .skipped, "the backups of a PostgreSQL database are not known here", advice: "docs/scaling.md, Backups")
        }
        let folder = backups.map { ShellText.word($0) } ?? "FOLDER"
        let make = "make one each night: relayd backup --keep 14 \(folder) (docs/operating.md has a timer for it)"
        guard let backups else {
            return Check(.backup, .skipped, "no folder of backups is named", advice: "name it: relayd doctor --backups FOLDER; \(make)")
        }
        do {
            let entries = try BackupFolder(backups).entries()
            let broken = entries.first { $0.description == nil }
            guard let newest = entries.first(where: { $0.description?.relay == "\(key.id)" }), let made = newest.description?.made else {
                return Check(.backup, .failed, "\(backups) has no backup of this relay", advice: make)
            }
            let seconds = max(0, now.count.subtractingReportingOverflow(made).partialValue / 1_000)
            let text = "the newest backup is \(ClockDifference.size(ofSeconds: Int(clamping: seconds))) old: \(newest.name)"
            if seconds > 2 * 86_400 {
                return Check(
                    .backup,
                    seconds > 14 * 86_400 ? .failed : .warning,
                    text,
                    advice: "see why none was made since: systemctl status relayd-backup.timer relayd-backup.service. \(make)"
                )
            }
            if let broken {
                return Check(
                    .backup,
                    .warning,
                    "\(broken.name) is not a whole backup; \(text)",
                    advice: "see all of them: relayd backup check \(folder)"
                )
            }
            return Check(.backup, .ok, text)
        } catch {
            return Check(.backup, .failed, "\(error)", advice: make)
        }
    }
}
