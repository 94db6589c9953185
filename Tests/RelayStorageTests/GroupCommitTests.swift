// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage
import Testing

@Suite final class GroupCommitTests {
    private struct Refused: Error {}

    /// What a body does after its statements.
    private enum Ending { case succeed, fail, hideFailure }

    private struct Work {
        var statements: [String]
        var ending = Ending.succeed

        /// Inserts a value.
        init(_ value: Int, _ ending: Ending = .succeed) { self.init(["INSERT INTO sample (value) VALUES (\(value))"], ending) }

        init(_ statements: [String], _ ending: Ending = .succeed) {
            self.statements = statements
            self.ending = ending
        }

        func run(_ database: Database) -> (any Error)? {
            do {
                for statement in statements { try database.execute(sql: statement) }
                if ending == .fail { throw Refused() }
                return nil
            } catch {
                return ending == .hideFailure ? nil : error
            }
        }
    }

    private final class Cache: GroupCommitCache {
        enum Event { case succeeded, failed, undone, committed, groupUndone }

        var events: [Event] = []

        func workSucceeded() { events.append(.succeeded) }
        func workFailed() { events.append(.failed) }
        func workUndone() { events.append(.undone) }
        func groupCommitted() { events.append(.committed) }
        func groupUndone() { events.append(.groupUndone) }
    }

    private let directory = FileManager.default.temporaryDirectory.appending(path: "group-\(UUID().uuidString)").path
    private let database: DatabaseQueue
    /// Sees committed values only.
    private let other: DatabaseQueue
    private let cache = Cache()
    /// The indices of the work that ran, in order.
    private var runs: [Int] = []
    private var joins = 0

    init() throws {
        try PrivateDirectory.make(directory)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { database in
            try database.execute(sql: "CREATE TABLE sample (id INTEGER PRIMARY KEY, value UNIQUE NOT NULL)")
            try database.execute(sql: "CREATE TABLE child (parent REFERENCES sample (value) DEFERRABLE INITIALLY DEFERRED)")
        }
        database = try DatabaseFile.open(directory + "/test.sqlite", migrator: migrator, patience: 0.1)
        other = try DatabaseQueue(path: directory + "/test.sqlite")
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    private func committed() throws -> [Int] { try other.read { try Int.fetchAll($0, sql: "SELECT value FROM sample ORDER BY id") } }

    private func commit(_ work: [Work], joining late: [Work] = []) throws {
        var group = work
        try database.inDatabase { database in
            try GroupCommit(database, cache: cache).commit(work.count) {
                joins += 1
                group += late
                return late.count
            } run: { index in
                runs.append(index)
                return group[index].run(database)
            }
        }
    }

    /// A later group is not affected by a failed one.
    private func expectGroupAfterwards(_ work: Work = Work(100), sourceLocation: SourceLocation = #_sourceLocation) throws {
        let before = try committed()
        let isInsideTransaction = database.inDatabase { $0.isInsideTransaction }
        #expect(!isInsideTransaction, sourceLocation: sourceLocation)
        cache.events = []
        try commit([work])
        #expect(try committed() == before + [100], sourceLocation: sourceLocation)
        #expect(cache.events == [.succeeded, .committed], sourceLocation: sourceLocation)
    }

    // MARK: Work

    @Test func groupIsCommittedAtOnce() throws {
        try database.inDatabase { database in
            try GroupCommit(database).commit(3) { index in
                let failure = Work(index).run(database)
                #expect((try? committed()) == [])
                return failure
            }
        }
        #expect(try committed() == [0, 1, 2])
        try commit([Work(3), Work(4)])
        #expect(try committed() == [0, 1, 2, 3, 4])
        #expect(runs == [0, 1])
        #expect(cache.events == [.succeeded, .succeeded, .committed])
    }

    @Test func emptyGroupIsCommitted() throws {
        try commit([])
        #expect(cache.events == [.committed])
        try expectGroupAfterwards()
    }

    /// The first failure has written nothing, so the group is not repeated. A failed constraint undoes its own statement.
    @Test func failureBeforeAWriteAffectsNothing() throws {
        try commit([Work(0), Work([], .fail), Work(0), Work(["not SQL"]), Work(4)])
        #expect(runs == [0, 1, 2, 3, 4])
        #expect(try committed() == [0, 4])
        #expect(cache.events == [.succeeded, .failed, .failed, .failed, .succeeded, .committed])
    }

    /// The body throws, or a constraint fails.
    @Test(arguments: [[], ["INSERT INTO sample (value) VALUES (7)"], ["INSERT INTO sample (value) VALUES (NULL)"]])
    func failureAfterAWriteUndoesOnlyItsOwnWrites(_ last: [String]) throws {
        let writes = [
            "INSERT INTO sample (value) VALUES (7)", "INSERT INTO sample (value) VALUES (1)",
            "UPDATE sample SET value = 9 WHERE value = 0",
        ]
        let spoilt = Work(writes + last, .fail)
        try commit([Work(0), spoilt, Work(1), Work([], .fail), Work(2, .fail), Work(3)])
        #expect(runs == [0, 1] + [0, 1, 2, 3, 4, 5])
        #expect(try committed() == [0, 1, 3])
        #expect(
            cache.events == [.succeeded, .groupUndone] + [.succeeded, .undone, .succeeded, .failed, .undone, .succeeded, .committed]
        )
        try expectGroupAfterwards()
    }

    @Test func groupInWhichAllWorkFailsIsCommitted() throws {
        try commit([Work(0, .fail), Work(1, .fail)])
        #expect(try committed() == [])
        #expect(cache.events == [.groupUndone, .undone, .undone, .committed])
        try expectGroupAfterwards()
    }

    // MARK: Joining

    @Test func joiningWorkIsCommittedWithTheGroup() throws {
        try commit([Work(0), Work(1)], joining: [Work(2), Work([], .fail), Work(4)])
        #expect(joins == 1)
        #expect(runs == [0, 1, 2, 3, 4])
        #expect(try committed() == [0, 1, 2, 4])
        #expect(cache.events == [.succeeded, .succeeded, .succeeded, .failed, .succeeded, .committed])
    }

    @Test func spoiltWorkThatHasJoinedRepeatsTheWholeGroup() throws {
        try commit([Work(0)], joining: [Work(1, .fail), Work(2)])
        #expect(joins == 1)
        #expect(runs == [0, 1] + [0, 1, 2])
        #expect(try committed() == [0, 2])
        #expect(cache.events == [.succeeded, .groupUndone, .succeeded, .undone, .succeeded, .committed])
    }

    @Test func nothingJoinsARepeatedGroup() throws {
        try commit([Work(0, .fail), Work(1)], joining: [Work(2)])
        #expect(joins == 0)
        #expect(runs == [0] + [0, 1])
        #expect(try committed() == [1])
    }

    // MARK: Failures of the group

    @Test func failedCommitFailsTheWholeGroup() throws {
        let orphan = Work(["INSERT INTO child VALUES (8)"])
        let error = #expect(throws: DatabaseError.self) { try commit([Work(0), orphan], joining: [Work(1)]) }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        #expect(runs == [0, 1, 2])
        #expect(try committed() == [])
        #expect(cache.events == [.succeeded, .succeeded, .succeeded, .groupUndone])
        try expectGroupAfterwards()
    }

    @Test func failedCommitFailsARepeatedGroup() throws {
        let orphan = Work(["INSERT INTO child VALUES (8)"])
        #expect(throws: DatabaseError.self) { try commit([orphan, Work(0, .fail), Work(1)]) }
        #expect(try committed() == [])
        #expect(cache.events == [.succeeded, .groupUndone, .succeeded, .undone, .succeeded, .groupUndone])
        try expectGroupAfterwards()
    }

    /// SQLite has rolled the transaction back, so what follows would be committed by itself.
    @Test(arguments: [false, true]) func fullDatabaseFailsTheWholeGroup(_ isHidden: Bool) throws {
        let pages = try #require(try database.inDatabase { try Int.fetchOne($0, sql: "PRAGMA page_count") })
        try setMaximumPages(pages + 4)
        let large = Work(["INSERT INTO sample (value) VALUES (zeroblob(1000000))"], isHidden ? .hideFailure : .succeed)
        let error = #expect(throws: DatabaseError.self) { try commit([Work(0), large, Work(1)], joining: [Work(2)]) }
        #expect(error?.resultCode == (isHidden ? .SQLITE_IOERR : .SQLITE_FULL))
        #expect(runs == [0, 1])
        #expect(joins == 0)
        #expect(try committed() == [])
        #expect(cache.events == [.succeeded, .groupUndone])
        try setMaximumPages(100_000)
        try expectGroupAfterwards()
    }

    private func setMaximumPages(_ pages: Int) throws {
        try database.inDatabase { try $0.execute(sql: "PRAGMA max_page_count = \(pages)") }
    }

    @Test func transactionThatCannotBeginRunsNothing() throws {
        try database.inDatabase { try $0.execute(sql: "PRAGMA query_only = 1") }
        let readOnly = #expect(throws: DatabaseError.self) { try commit([Work(0)], joining: [Work(1)]) }
        #expect(readOnly?.resultCode == .SQLITE_READONLY)
        try database.inDatabase { try $0.execute(sql: "PRAGMA query_only = 0") }

        try other.inDatabase { other in
            try other.inTransaction(.immediate) {
                let locked = #expect(throws: DatabaseError.self) { try commit([Work(0)], joining: [Work(1)]) }
                #expect(locked?.resultCode == .SQLITE_BUSY)
                return .rollback
            }
        }
        #expect(runs == [])
        #expect(joins == 0)
        #expect(cache.events == [.groupUndone, .groupUndone])
        try expectGroupAfterwards()
    }

    @Test func closedDatabaseIsReported() throws {
        try database.close()
        let error = #expect(throws: DatabaseError.self) { try commit([Work(0)]) }
        #expect(error?.resultCode == .SQLITE_MISUSE)
        #expect(runs == [])
        #expect(try committed() == [])
    }
}
