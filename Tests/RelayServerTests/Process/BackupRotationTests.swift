// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Backups that are made again and again into one folder, and the check of what is there.
extension BackupTests {
    private struct Checked: Decodable {
        var file: String
        var whole: Bool
        var relay: String?
        var made: Int64?
        var version: String?
        var problem: String?
    }

    private func rotate(_ keep: Int) async throws -> String {
        let ended = try await run("backup", "--keep", "\(keep)", folder.path)
        #expect(ended.status == 0, "\(ended.error)")
        let line = try #require(ended.output.split(separator: "\n").first { $0.hasPrefix("wrote ") })
        return String(try #require(line.dropFirst("wrote ".count).split(separator: ",").first))
    }

    private func check(_ path: String) async throws -> (status: Int32, backups: [Checked], error: String) {
        let ended = try await RelaydProcess.run(["backup", "check", path, "--json"])
        let backups = ended.output.isEmpty ? [] : try JSONDecoder().decode([Checked].self, from: Data(ended.output.utf8))
        return (ended.status, backups, ended.error)
    }

    private func names() throws -> Set<String> { Set(try FileManager.default.contentsOfDirectory(atPath: folder.path)) }

    private func name(_ path: String) -> String { URL(filePath: path).lastPathComponent }

    @Test func rotationKeepsTheNewestBackupsAndEveryOtherFile() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        var made: [String] = []
        for _ in 0..<4 { made.append(try await rotate(3)) }
        #expect(Set(made).count == 4)
        #expect(try names() == Set(made.dropFirst().map(name)))
        for path in made.dropFirst() { #expect(try mode(path) == 0o600) }

        // What looks like a backup of this command and is none, and backups that others made.
        let files = FileManager.default
        let (whole, first) = (try Data(contentsOf: URL(filePath: made[3])), URL(filePath: made[0]))
        try whole.prefix(whole.count - 512).write(to: first)
        for (name, data) in [("mine.tar", whole), ("note.txt", Data([1])), ("relay-abcdefgh-20260131T220000000Z.tar", whole)] {
            try data.write(to: folder.appending(path: name))
        }
        try files.createSymbolicLink(
            atPath: folder.appending(path: "relay-link.tar").path,
            withDestinationPath: made[3]
        )
        try files.createDirectory(at: folder.appending(path: "relay-folder.tar"), withIntermediateDirectories: false)
        let other = try await RelaydProcess()
        _ = try await other.start()
        for _ in 0..<2 { _ = try await other.run("backup", "--keep", "2", folder.path) }
        let before = try names()
        #expect(before.count == 11)

        let last = try await rotate(1)
        #expect(try names() == before.subtracting(made.dropFirst().map(name)).union([name(last)]))
        // A backup is one more however many are asked for.
        let more = try await rotate(50)
        #expect(try names() == before.subtracting(made.dropFirst().map(name)).union([name(last), name(more)]))
        for relay in [relayd, other] { #expect(try await relay.stop() == 0) }
    }

    /// The clock was ahead when an older backup was made.
    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/faketime"), "needs Debian's package faketime"))
    func theNewBackupStaysThoughItsTimeIsTheEarlierOne() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/faketime")
        process.arguments =
            ["-f", "+40d", RelaydProcess.executable.path, "backup", "--keep", "1", folder.path, "--data-directory", relayd.directory.path]
        #expect(try await ProcessRun.run(process).status == 0)
        let ahead = try names()
        #expect(ahead.count == 1)
        let new = try await rotate(1)
        #expect(try names() == [name(new)])
        #expect(!ahead.contains(name(new)))
    }

    @Test func aKilledRotationLeavesNoBackupAndTheNextOneTidiesUp() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        #expect(try await relayd.stop() == 0)
        let first = try await rotate(2)
        // It blocks at a pipe in place of a key, after it has copied the key and the database before it.
        let (key, aside) = (relayd.directory.appending(path: "issuer.key"), relayd.directory.appending(path: "aside"))
        try FileManager.default.moveItem(at: key, to: aside)
        #expect(mkfifo(key.path, 0o600) == 0)
        let (backup, pipe) = try await blockedBackup(["backup", "--keep", "1", folder.path], at: key)
        defer { close(pipe) }
        #expect(kill(backup.processIdentifier, SIGKILL) == 0)
        try await ProcessRun.end(of: backup)
        #expect(try names().contains { $0.hasSuffix(".partial") })
        // The earlier backup is there, and the only one.
        let (status, found, _) = try await check(folder.path)
        #expect(status == 0 && found.map(\.file) == [first])

        try FileManager.default.removeItem(at: key)
        try FileManager.default.moveItem(at: aside, to: key)
        let second = try await rotate(2)
        #expect(try names() == [name(first), name(second)])
    }

    @Test func aBackupThatPassesTheCheckIsRestoredOnAnotherMachine() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (phone, pc) = try await pair()
        let started = try #require(try await relayd.run("--version").split(separator: " ", maxSplits: 1).last)
        try await launch(1, from: phone, to: pc)
        let path = try await rotate(7)
        let (status, found, error) = try await check(path)
        #expect(status == 0 && error.isEmpty, "\(error)")
        let backup = try #require(found.first)
        #expect(backup.whole && backup.problem == nil && backup.version == String(started) && (backup.made ?? 0) > 1_700_000_000_000)
        let text = try await RelaydProcess.run(["backup", "check", folder.path])
        let line = "whole      \(path)  relay \(backup.relay ?? "?"), made "
        #expect(text.status == 0 && text.output.hasPrefix(line) && text.output.contains(" ago, by relayd "), "\(text.output)")
        #expect(try names() == [name(path)])

        // After the backup: a command that the target has handled, and a revocation.
        let command = try phone.launch("film:2", on: pc, number: 2)
        guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:2"))))
        #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
        #expect(try await relayd.stop() == 0)
        try FileManager.default.removeItem(at: relayd.directory)

        // The other machine has the address of the first one, and a directory of its own.
        let other = try await RelaydProcess(port: relayd.port)
        let restored = try await RelaydProcess.run(["restore", path, "--data-directory", other.directory.path])
        #expect(restored.status == 0, "\(restored.error)")
        _ = try await other.start()
        for endpoint in [phone, pc] {
            try await endpoint.refresh()
            try await endpoint.connect()
        }
        // The relay knows nothing of the command and says so. The sender sends it again, and the target does not handle it again.
        let asked = try await phone.request { .commandCancel(.init(ref: $0, id: command.header.id)) }
        guard case .failure(let failure) = asked, failure.code == .notFound else { throw WireEndpoint.Unexpected(message: "\(asked)") }
        let again = try await phone.request { .commandSend(.init(ref: $0, command: Blob(command.encoded), again: true)) }
        guard case .ok = again else { throw WireEndpoint.Unexpected(message: "\(again)") }
        _ = try await pc.handleNext()
        #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
        try await launch(3, from: phone, to: pc)
        #expect(try await other.stop() == 0)
    }

    /// The check and the restore agree about every file.
    @Test func theCheckRefusesWhatARestoreRefuses() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await pair()
        let path = try await rotate(1)
        #expect(try await relayd.stop() == 0)
        let whole = try Data(contentsOf: URL(filePath: path))
        var broken: [Data] = [whole.dropLast(600), whole.prefix(whole.count / 2), Data(), Data("no tar".utf8)]
        for place in [0, 130, 600, 1_100, whole.count / 3, whole.count * 2 / 3] {
            var changed = whole
            changed[place] ^= 0x41
            broken.append(changed)
        }
        let (damaged, elsewhere) = (folder.appending(path: "damaged.tar"), folder.appending(path: "elsewhere").path)
        for (number, data) in broken.enumerated() {
            try data.write(to: damaged)
            let (status, found, error) = try await check(damaged.path)
            try? FileManager.default.removeItem(atPath: elsewhere)
            let restored = try await RelaydProcess.run(["restore", damaged.path, "--data-directory", elsewhere])
            #expect(status == restored.status, "\(number)")
            // What fills up a block says nothing.
            guard restored.status != 0 else { continue }
            #expect(found.map(\.whole) == [false] && found.first?.problem?.isEmpty == false, "\(number)")
            #expect(error.contains("cannot be restored"), "\(number): \(error)")
            #expect(restored.error.contains(found.first?.problem ?? "?"), "\(number): \(restored.error)")
        }
        // One that is not whole fails the check of its folder, and hides none that is.
        try whole.dropLast(600).write(to: damaged)
        let (status, found, _) = try await check(folder.path)
        #expect(status == 1 && found.map(\.whole) == [true, false])
        try FileManager.default.removeItem(atPath: elsewhere)
        #expect(try names() == ["damaged.tar", name(path)])
    }

    @Test func wrongUsesOfRotationAndCheckAreRefused() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        _ = try await relayd.start()
        for arguments in [["--keep", "0"], ["--keep", "-1"], ["--keep", "x"], ["--keep", "1", "--force"]] {
            let ended = try await RelaydProcess.run(["backup", folder.path] + arguments + ["--data-directory", relayd.directory.path])
            #expect(ended.status == 2, "\(arguments)")
        }
        #expect(try await RelaydProcess.run(["backup", "-", "--keep", "1", "--data-directory", relayd.directory.path]).status == 2)
        // A disk that is not mounted is no folder.
        let missing = folder.appending(path: "disk").path
        let refused = try await run("backup", "--keep", "1", missing)
        #expect(refused.status == 1 && refused.error.contains("mkdir -m 700 \(missing)"), "\(refused.error)")
        let (empty, _, error) = try await check(folder.path)
        #expect(empty == 1 && error.contains("no backup is in \(folder.path)"), "\(error)")
        #expect(try await check(missing).status == 1)
        #expect(try names().isEmpty)
        #expect(try await relayd.stop() == 0)
    }
}
