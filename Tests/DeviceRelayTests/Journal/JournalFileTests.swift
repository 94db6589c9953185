// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import GRDB
import RelayProtocol
import Testing

@Suite struct JournalFileTests {
    let directory: TemporaryDirectory
    let endpoint = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    var path: String { "\(directory.path)/journal.sqlite" }

    func journal(patience: Double = 0.1) throws -> Journal { try Journal(path: path, endpoint: endpoint, patience: patience) }

    @Test func journalFilesArePrivateToTheUser() async throws {
        let journal = try journal()
        try await journal.write { try $0.setRelayOffset(1) }
        let modes = try directory.modes()
        #expect(modes.keys.sorted() == ["journal.sqlite", "journal.sqlite-shm", "journal.sqlite-wal"])
        #expect(modes.values.allSatisfy { $0 == 0o600 })
    }

    @Test func completionsRunAfterTheCommitInOrder() async throws {
        let journal = try journal()
        let other = try self.journal(patience: 5)
        let seen = Shared<[Int64]>([])
        let late = Shared(0)
        await withCheckedContinuation { continuation in
            for number in Int64(1)...500 {
                journal.write {
                    try $0.setRelayOffset(number)
                } completion: { _ in
                    // A completed write is visible to other connections.
                    let committed = try? other.read { try $0.relayOffset() }
                    if (committed ?? nil) ?? 0 < number { late.withLock { $0 += 1 } }
                    let count = seen.withLock { seen in
                        seen.append(number)
                        return seen.count
                    }
                    if count == 500 { continuation.resume() }
                }
            }
        }
        #expect(seen.withLock { $0 } == Array(1...500))
        #expect(late.withLock { $0 } == 0)
    }

    @Test func throwingWriteDoesNotAffectOtherWrites() async throws {
        struct Refused: Error {}
        let journal = try journal()
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for number in Int64(0)..<100 {
                group.addTask {
                    do {
                        try await journal.write { transaction in
                            _ = try transaction.nextNumber(to: EndpointID(digest: .zero), appID: "a", from: 1)
                            if number % 2 == 0 { throw Refused() }
                        }
                        return true
                    } catch { return false }
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(outcomes == 50)
        #expect(try await journal.write { try $0.nextNumber(to: EndpointID(digest: .zero), appID: "a", from: 1) } == 51)
    }

    @Test func closeCommitsTheSubmittedWrites() throws {
        let journal = try journal()
        let committed = Shared(0)
        for number in Int64(1)...600 {
            journal.write {
                try $0.setRelayOffset(number)
            } completion: { result in
                if case .success = result { committed.withLock { $0 += 1 } }
            }
        }
        journal.close()
        #expect(committed.withLock { $0 } == 600)
        #expect(try self.journal().read { try $0.relayOffset() } == 600)
    }

    @Test func writesAndReadsAfterCloseAreReported() async throws {
        let journal = try journal()
        try await journal.write { try $0.setRelayOffset(1) }
        journal.close()
        journal.close()
        let path = path
        let ran = Shared(0)
        for _ in 0..<2 {
            await #expect(throws: JournalError.closed(path)) {
                try await journal.write { transaction in
                    ran.withLock { $0 += 1 }
                    try transaction.setRelayOffset(2)
                }
            }
        }
        #expect(throws: JournalError.closed(path)) { _ = try journal.read { try $0.relayOffset() } }
        #expect(ran.withLock { $0 } == 0)
        #expect(try self.journal().read { try $0.relayOffset() } == 1)
    }

    @Test(arguments: [0, 1, 40, 5_000]) func damagedFileIsReportedAndNotChanged(_ offset: Int) async throws {
        do {
            let journal = try journal()
            try await journal.write { try $0.setRelayOffset(1) }
            journal.close()
        }
        var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        if offset == 0 {
            bytes = Data("this is no database, but it is long enough to be taken for one, and it is somebody's only copy".utf8)
        } else {
            for index in offset..<min(offset + 4_000, bytes.count) { bytes[index] ^= 0x5A }
        }
        try bytes.write(to: URL(fileURLWithPath: path))
        #expect(throws: JournalError.damaged(path)) {
            let journal = try self.journal()
            _ = try journal.read { try ($0.sentCommands(), $0.target(), $0.pins()) }
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
    }

    @Test(arguments: [
        "UPDATE meta SET relay_offset = 'yesterday'", "INSERT INTO pins VALUES (zeroblob(32), 'text', 'never', 'verified')",
        """
        INSERT INTO received_commands VALUES (zeroblob(32), zeroblob(16), 'a', 0, 0, 0, zeroblob(32), 1, 'received', NULL, NULL, 0, 0)
        """,
        """
        INSERT INTO received_commands VALUES
        (zeroblob(32), X'00000000000070008000000000000000', 'a', 0, 0, 0, zeroblob(32), 1, 'answered', 'conquered', NULL, 0, 0)
        """,
    ]) func invalidRowIsReported(_ sql: String) async throws {
        let journal = try journal()
        let raw = try DatabaseQueue(path: path)
        try await raw.write { try $0.execute(sql: sql) }
        #expect(throws: JournalError.damaged(path)) {
            _ = try journal.read { try ($0.relayOffset(), $0.target(), $0.pins()) }
        }
    }

    @Test func lockedDatabaseIsReported() async throws {
        let journal = try journal()
        try await journal.write { try $0.setRelayOffset(1) }
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: path, configuration: configuration)
        let path = path
        try await other.inDatabaseAsync { database in try database.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: JournalError.locked(path)) { try await journal.write { try $0.setRelayOffset(2) } }
        #expect(try journal.read { try $0.relayOffset() } == 1)
        try await other.inDatabaseAsync { database in try database.execute(sql: "ROLLBACK") }
        try await journal.write { try $0.setRelayOffset(3) }
        #expect(try journal.read { try $0.relayOffset() } == 3)
    }

    @Test func journalOfAnotherEndpointOrNewerVersionIsRejected() async throws {
        _ = try journal()
        let path = path
        #expect(throws: JournalError.otherEndpoint(path)) {
            _ = try Journal(path: path, endpoint: EndpointID(P256SigningKey().publicKey))
        }
        let raw = try DatabaseQueue(path: path)
        try await raw.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99 the future')") }
        #expect(throws: JournalError.tooNew(path)) { _ = try self.journal() }
    }

    @Test func missingDirectoryIsReported() throws {
        let path = "\(directory.path)/nowhere/journal.sqlite"
        #expect(throws: JournalError.notWritable(path)) { _ = try Journal(path: path, endpoint: endpoint) }
    }

    /// The database enforces the constraints, independently of the code.
    @Test(arguments: [
        "INSERT INTO sent_blobs VALUES (zeroblob(16), X'01', X'01')",
        "INSERT INTO results VALUES (zeroblob(32), zeroblob(16), X'01', NULL)",
        "INSERT INTO meta VALUES (2, zeroblob(32), 0)", "INSERT INTO pins VALUES (zeroblob(31), X'01', 0, 'verified')",
        """
        INSERT INTO received_commands VALUES (zeroblob(32), zeroblob(16), 'a', 0, 0, 0, zeroblob(32), 1, 'answered', NULL, NULL, 0, 0)
        """,
    ]) func schemaRejectsInvalidRows(_ sql: String) async throws {
        _ = try journal()
        let raw = try DatabaseQueue(path: path)
        await #expect(throws: DatabaseError.self) { try await raw.write { try $0.execute(sql: sql) } }
    }
}

extension DatabaseQueue {
    fileprivate func inDatabaseAsync(_ body: @Sendable (Database) throws -> Void) async throws { try inDatabase(body) }
}
