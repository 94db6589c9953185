// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Backups of the real service, made while it runs, and put back.
@Suite(.timeLimit(.minutes(10))) struct BackupTests {
    let relayd: RelaydProcess
    /// The folder of the backup, which no other test uses.
    let folder = FileManager.default.temporaryDirectory.appending(path: "backup-\(UUID().uuidString)")
    private var file: URL { folder.appending(path: "relay.tar") }

    init() async throws {
        relayd = try await RelaydProcess()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    }

    func run(_ arguments: String...) async throws -> RelaydProcess.Ended {
        try await RelaydProcess.run(arguments + ["--data-directory", relayd.directory.path])
    }

    func pair() async throws -> (phone: WireEndpoint, pc: WireEndpoint) {
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        guard case .ok = try await pc.publish("org.example.player") else { throw WireEndpoint.Unexpected(message: "not published") }
        return (phone, pc)
    }

    func launch(_ number: UInt64, from phone: WireEndpoint, to pc: WireEndpoint) async throws {
        let command = try phone.launch("film:\(number)", on: pc, number: number)
        guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)"))))
        #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
    }

    func mode(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    /// The relay's files, by their names; without what SQLite makes and removes as it likes.
    private func contents() throws -> [String: Data] {
        var contents: [String: Data] = [:]
        for name in ["relay.key", "relay.sqlite", "issuer.key", "issuer.sqlite"] {
            contents[name] = FileManager.default.contents(atPath: relayd.directory.appending(path: name).path)
        }
        return contents
    }

    @Test func devicesWorkWithARestoredRelay() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, pc) = try await pair()
        try await launch(1, from: phone, to: pc)
        let made = try await run("backup", file.path)
        #expect(made.status == 0, "\(made.error)")
        #expect(try mode(file.path) == 0o600)

        for number in 2...4 as ClosedRange<UInt64> {
            for endpoint in [phone, pc] { try await endpoint.refresh() }
            try await launch(number, from: phone, to: pc)
        }
        let late = WireEndpoint("Late", at: relayd)
        try await late.join(try await relayd.run("invite", "Anna"))
        try await late.connect()
        #expect(try await relayd.stop() == 0)
        try FileManager.default.removeItem(at: relayd.directory)

        let restored = try await run("restore", file.path)
        #expect(restored.status == 0, "\(restored.error)")
        #expect(restored.output.contains("restored relay"))
        let names = try FileManager.default.contentsOfDirectory(atPath: relayd.directory.path)
        #expect(Set(names) == ["relay.key", "relay.sqlite", "relay.lock", "issuer.key", "issuer.sqlite"])
        for name in names { #expect(try mode(relayd.directory.appending(path: name).path) == 0o600, "\(name)") }

        _ = try await relayd.start()
        for endpoint in [phone, pc] {
            try await endpoint.refresh()
            try await endpoint.connect()
        }
        for number in 5...6 as ClosedRange<UInt64> {
            try await launch(number, from: phone, to: pc)
            for endpoint in [phone, pc] { try await endpoint.refresh() }
        }
        // An endpoint that joined after the backup gets the error "join again", and can join again.
        let error = try await #require(throws: WireEndpoint.Unexpected.self) { try await late.refresh() }
        #expect(error.message.contains("join again"))
        try await late.join(try await relayd.run("invite", "Anna"))
        try await late.connect()
        #expect(try await relayd.stop() == 0)
    }

    /// A program that encrypts reads it.
    @Test func backupGoesToStandardOutput() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, pc) = try await pair()
        #expect(FileManager.default.createFile(atPath: file.path, contents: nil, attributes: [.posixPermissions: 0o600]))
        let process = RelaydProcess.process(["backup", "-", "--data-directory", relayd.directory.path])
        let ended = try await ProcessRun.run(process, output: try FileHandle(forWritingTo: file))
        #expect(ended.status == 0)
        #expect(ended.error.hasPrefix("wrote a backup to standard output"), "\(ended)")
        // Nothing of it is left.
        #expect(try FileManager.default.contentsOfDirectory(atPath: relayd.directory.path).allSatisfy { !$0.contains("backup") })
        #expect(try await relayd.stop() == 0)
        try FileManager.default.removeItem(at: relayd.directory)
        let restored = try await run("restore", file.path)
        #expect(restored.status == 0, "\(restored.error)")
        #expect(restored.output.contains("\nlost: what happened since"), "\(restored.output)")
        _ = try await relayd.start()
        for endpoint in [phone, pc] { try await endpoint.connect() }
        try await launch(1, from: phone, to: pc)
        #expect(try await run("backup", "-", "--force").status == 2)
        #expect(try await relayd.stop() == 0)
    }

    @Test func restoreSaysWhatIsLost() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (_, pc) = try await pair()
        #expect(try await run("backup", file.path).status == 0)
        let late = WireEndpoint("Late", at: relayd)
        try await late.join(try await relayd.run("invite", "Anna"))
        try await late.connect()
        _ = try await relayd.run("account", "add", "Bert")
        _ = try await relayd.run("endpoint", "revoke", "--yes", "\(pc.id)")
        #expect(try await relayd.stop() == 0)
        let restored = try await run("restore", file.path, "--force")
        #expect(restored.status == 0, "\(restored.error)")
        let lines = restored.output.split(separator: "\n").map(String.init)
        #expect(
            lines.filter { $0.hasPrefix("lost: ") } == [
                "lost: the account Bert, with its devices",
                "lost: the join of \(late.id) (Anna, Late); it needs a new link",
                "lost: the revocation of \(pc.id) (Anna, PC); repeat it: relayd endpoint revoke \(pc.id)",
            ]
        )
        #expect(lines.contains("repeat revocations before others can reach the relay"))
        // The same backup once more loses nothing.
        let again = try await run("restore", file.path, "--force")
        #expect(again.output.contains("no account, device or revocation is lost"), "\(again.output)")
    }

    /// Ways to put earlier files in place without `relayd restore`.
    enum Replacement: CaseIterable {
        /// The database, copied while the relay was stopped, or while it ran.
        case databaseOfAStop, databaseOfARun
        /// The whole directory, copied.
        case directory
    }

    /// The copied files know two commands that were never offered. Both have run since.
    @Test(arguments: Replacement.allCases) func olderDatabaseStatesNothingUntrue(replacement: Replacement) async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, pc) = try await pair()
        await pc.disconnect()
        let commands = try (1...2 as ClosedRange<UInt64>).map { try phone.launch("film:\($0)", on: pc, number: $0) }
        for command in commands {
            guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        }
        if replacement == .databaseOfAStop { #expect(try await relayd.stop() == 0) }
        let (files, copy) = (FileManager.default, folder.appending(path: "copy"))
        try files.createDirectory(at: copy, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        for name in try files.contentsOfDirectory(atPath: relayd.directory.path)
        where name.contains(/^(relay|issuer)\.(key|lock|sqlite)/) {
            try files.copyItem(at: relayd.directory.appending(path: name), to: copy.appending(path: name))
        }
        if replacement == .databaseOfAStop {
            _ = try await relayd.start()
            try await phone.connect()
        }

        try await pc.connect()
        for (number, command) in zip(1..., commands) {
            #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)"))))
            #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
        }
        #expect(try await relayd.stop() == 0)
        if replacement == .directory {
            // The old files stay, so that none of the new ones gets the number of an old one in the file system.
            try files.moveItem(at: relayd.directory, to: folder.appending(path: "old"))
            try files.copyItem(at: copy, to: relayd.directory)
        } else {
            for name in ["relay.sqlite", "relay.sqlite-wal", "relay.sqlite-shm"] {
                let (old, new) = (copy.appending(path: name), relayd.directory.appending(path: name))
                try? files.removeItem(at: new)
                if files.fileExists(atPath: old.path) { try files.copyItem(at: old, to: new) }
            }
        }
        let log = folder.appending(path: "log")
        try Data().write(to: log)
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        relayd.standardError = nil
        #expect(try String(contentsOf: log, encoding: .utf8).contains(/treated as restored; .* wait for their senders commands=2/))
        for endpoint in [phone, pc] {
            try await endpoint.refresh()
            try await endpoint.connect()
        }

        // Neither is offered again, and the relay does not say of one that has run that it is cancelled.
        let isOffered = try await pc.receivedMessages().contains { if case .command = $0 { true } else { false } }
        #expect(!isOffered)
        let cancelled = try await phone.request { .commandCancel(.init(ref: $0, id: commands[0].header.id)) }
        guard case .failure(let failure) = cancelled, failure.code == .notFound else {
            throw WireEndpoint.Unexpected(message: "\(cancelled)")
        }
        // A sender that did not get the outcome sends the command again, and the target alone decides.
        let again = try await phone.request { .commandSend(.init(ref: $0, command: Blob(commands[1].encoded), again: true)) }
        guard case .ok = again else { throw WireEndpoint.Unexpected(message: "\(again)") }
        _ = try await phone.request { .commandCancel(.init(ref: $0, id: commands[1].header.id)) }
        _ = try await pc.handleNext()
        #expect(try await phone.outcome(of: commands[1], target: try pc.record().payload) == .succeeded)
        try await launch(3, from: phone, to: pc)
        #expect(try await relayd.stop() == 0)
    }

    @Test func backupReplacesAFileOnlyWithForce() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        try Data("mine".utf8).write(to: file)
        let refused = try await run("backup", file.path)
        #expect(refused.status == 1)
        #expect(refused.error.contains("--force"))
        #expect(try Data(contentsOf: file) == Data("mine".utf8))
        #expect(try await run("backup", file.path, "--force").status == 0)
        #expect(try mode(file.path) == 0o600)
        // Nothing is left beside it.
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [file.lastPathComponent])
        #expect(try await relayd.stop() == 0)
    }

    /// Starts a backup that stops where it reads a key, which is a pipe.
    /// - Returns: The process, and the end of the pipe for writing. The backup waits until that is closed.
    func blockedBackup(_ arguments: [String], at key: URL) async throws -> (Process, pipe: Int32) {
        let backup = RelaydProcess.process(arguments + ["--data-directory", relayd.directory.path])
        try ProcessStart.alone { try backup.run() }
        // It can be opened for writing once its reader has it open.
        var pipe: Int32 = -1
        for _ in 0..<6_000 where pipe < 0 {
            pipe = open(key.path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            if pipe < 0 { try await Task.sleep(for: .milliseconds(10)) }
        }
        try #require(pipe >= 0)
        return (backup, pipe)
    }

    /// The keys that a killed backup has copied are gone after the next one.
    @Test func nextBackupDeletesTheDraftOfAKilledOne() async throws {
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        defer { try? FileManager.default.removeItem(at: folder) }
        func drafts() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("relayd-backup.") }
        }
        // The backup blocks at a pipe in place of a key, after it has copied the key before it.
        let (key, aside) = (relayd.directory.appending(path: "issuer.key"), relayd.directory.appending(path: "aside"))
        try FileManager.default.moveItem(at: key, to: aside)
        #expect(mkfifo(key.path, 0o600) == 0)
        let (backup, pipe) = try await blockedBackup(["backup", folder.path + "/1.tar"], at: key)
        defer { close(pipe) }
        let draft = try #require(try drafts().first)
        #expect(FileManager.default.fileExists(atPath: "\(folder.path)/\(draft)/relay.key"))
        // The next backup keeps the draft of a backup that still runs.
        try FileManager.default.createDirectory(at: folder.appending(path: "relayd-backup.1.partial"), withIntermediateDirectories: false)
        let second = folder.path + "/2.tar"
        try FileManager.default.removeItem(at: key)
        try FileManager.default.moveItem(at: aside, to: key)
        #expect(try await run("backup", second).status == 0)
        #expect(try drafts() == [draft])
        #expect(kill(backup.processIdentifier, SIGKILL) == 0)
        try await ProcessRun.end(of: backup)
        #expect(try drafts() == [draft])
        #expect(try await run("backup", second, "--force").status == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["2.tar"])
    }

    /// In a folder of several users, as `/tmp` is.
    @Test(.enabled(if: geteuid() == 0, "only root can make files of another user"))
    func draftsOfOtherUsersStay() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        #expect(chmod(folder.path, 0o777) == 0)
        let refused = try await RelaydProcess.run(["backup", file.path, "--data-directory", relayd.directory.path])
        #expect(refused.status == 1 && refused.error.contains("chmod +t \(folder.path)"), "\(refused.error)")
        #expect(chmod(folder.path, 0o1777) == 0)
        func draft(_ number: Int) throws -> String {
            let path = "\(folder.path)/relayd-backup.\(number).partial"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            #expect(FileManager.default.createFile(atPath: path + "/relay.key", contents: Data([1])))
            return path
        }
        let (abandoned, shared, other) = (try draft(1), try draft(2), try draft(3))
        #expect(chmod(shared, 0o777) == 0)
        for path in [other, other + "/relay.key"] { #expect(chown(path, 12_345, 12_345) == 0) }
        #expect(symlink(other, "\(folder.path)/relayd-backup.4.partial") == 0)
        #expect(try await run("backup", file.path).status == 0)
        #expect(!FileManager.default.fileExists(atPath: abandoned))
        for path in [shared, other] { #expect(FileManager.default.fileExists(atPath: path + "/relay.key"), "\(path)") }
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasPrefix("relayd-backup.") }
        #expect(left.count == 3)
    }

    @Test func tarReadsABackup() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        #expect(try await run("backup", file.path).status == 0)
        let text = try await ProcessRun.output(of: ["tar", "tf", file.path])
        #expect(text.split(separator: "\n") == ["backup.json", "relay.key", "relay.sqlite", "issuer.key", "issuer.sqlite"])
        #expect(try await relayd.stop() == 0)
    }

    @Test func restoreIsRejectedWhileARelayRuns() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, pc) = try await pair()
        #expect(try await run("backup", file.path).status == 0)
        for arguments in [["restore", file.path], ["restore", file.path, "--force"]] {
            let refused = try await RelaydProcess.run(arguments + ["--data-directory", relayd.directory.path])
            #expect(refused.status == 1)
            #expect(refused.error.contains("another relay uses"))
        }
        try await launch(1, from: phone, to: pc)
        #expect(try await relayd.stop() == 0)
    }

    @Test func forcedRestoreKeepsTheOldFiles() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await pair()
        #expect(try await run("backup", file.path).status == 0)
        #expect(try await relayd.stop() == 0)
        let before = try contents()
        let refused = try await run("restore", file.path)
        #expect(refused.status == 1)
        #expect(refused.error.contains("is not empty"))
        #expect(try contents() == before)

        let restored = try await run("restore", file.path, "--force")
        #expect(restored.status == 0, "\(restored.error)")
        let line = try #require(restored.output.split(separator: "\n").first { $0.hasPrefix("the old files are in ") })
        let place = String(line.dropFirst("the old files are in ".count))
        for (name, data) in before { #expect(FileManager.default.contents(atPath: "\(place)/\(name)") == data, "\(name)") }
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
    }

    /// Each byte of the archive counts but for those that fill blocks, and nothing is changed before all of it was looked at.
    @Test func aDamagedBackupIsNotRestored() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await pair()
        #expect(try await run("backup", file.path).status == 0)
        #expect(try await relayd.stop() == 0)
        let (whole, before) = (try Data(contentsOf: file), try contents())
        var broken: [(String, Data)] = [("cut off", whole.dropLast(2_000)), ("half", whole.prefix(whole.count / 2)), ("empty", Data())]
        for place in [0, 130, 600, 1_100, whole.count / 3, whole.count / 2, whole.count * 2 / 3] {
            var changed = whole
            // What fills up a block says nothing, and is zero.
            let content = try #require(whole[place...].firstIndex { $0 != 0 })
            changed[content] ^= 0x40
            broken.append(("byte \(place)", changed))
        }
        for (what, data) in broken {
            try data.write(to: file)
            let refused = try await run("restore", file.path, "--force")
            #expect(refused.status == 1, "\(what)")
            #expect(refused.error.contains("is not a whole backup"), "\(what): \(refused.error)")
            #expect(try contents() == before, "\(what)")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: relayd.directory.path)
        #expect(!names.contains { $0.hasPrefix("restor") || $0.hasPrefix("replaced") })
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
    }

    @Test func relayDoesNotStartAfterAnInterruptedRestore() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        #expect(try await run("backup", file.path).status == 0)
        #expect(try await relayd.stop() == 0)
        // As a loss of power leaves it, before the files took their places.
        let restoring = relayd.directory.appending(path: "restoring")
        try FileManager.default.createDirectory(at: restoring, withIntermediateDirectories: false)
        try FileManager.default.moveItem(at: relayd.directory.appending(path: "relay.key"), to: restoring.appending(path: "relay.key"))
        for command in [["serve"], ["account", "list"]] {
            let refused = try await RelaydProcess.run(command + ["--data-directory", relayd.directory.path])
            #expect(refused.status == 2)
            #expect(refused.error.contains("was interrupted"))
        }
        #expect(try await run("restore", file.path, "--force").status == 0)
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
    }
}
