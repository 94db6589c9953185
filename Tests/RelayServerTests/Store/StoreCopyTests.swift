// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import GRDB
import RelayProtocol
import RelayServer
import RelayTesting
import Testing

@testable import RelayComposition
@testable import RelayPostgres

/// Copies between the two kinds of databases.
@Suite(.timeLimit(.minutes(5)), .enabled(if: PostgresServer.isPossible)) struct StoreCopyTests {
    private let server: PostgresServer
    private let uri: String
    private let database: String

    init() async throws {
        server = try await PostgresServer.shared
        uri = try await server.makeURI()
        database = String(try #require(uri.firstMatch(of: /test_\w+/)).output)
    }

    private func copyOut(_ relay: StoredRelay) throws -> StoreCopy {
        try StoreCopy.make(from: DataDirectory(relay.directory, .existing), to: uri, progress: { _, _ in })
    }

    private func copyBack(to relay: StoredRelay) throws -> StoreCopy {
        try StoreCopy.make(from: uri, to: DataDirectory(relay.directory, .copied), progress: { _, _ in })
    }

    /// Values at their limits.
    private static let limits = """
        INSERT INTO removed_identities (issuer, subject, removed) VALUES
            ('', '', -9223372036854775808), ('', '🎬', 9223372036854775807), ('🎬', '', 0), ('é', 'e\u{301}', 1), ('''"$1?\\', '?', 2);
        INSERT INTO revoked_tokens (digest, ends) VALUES ('', -1);
        INSERT INTO commands
            (sequence, account, sender, id, target, app, number, created, expires, digest, size, urgent, state, cancel_requested, deadline,
            ended, outcome, receipt, reply, blob)
        SELECT 9223372036854775806, account, sender, X'00000000000000000000000000000000', target, '', 9223372036854775807,
            -9223372036854775808, 9223372036854775807, X'', 0, 0, 2, 0, 9223372036854775807, 0, '', X'', X'', NULL
        FROM commands LIMIT 1;
        INSERT INTO commands
            (sequence, account, sender, id, target, app, number, created, expires, digest, size, urgent, state, cancel_requested, deadline, blob)
        SELECT -5, account, sender, X'00000000000000000000000000000001', target, '🎬', -9223372036854775808, 0, 0, X'00', 0, 0, 0, 0, 0,
            zeroblob(262144)
        FROM commands LIMIT 1;
        """

    @Test func copyAndItsCopyHaveEqualRows() async throws {
        let relay = try await StoredRelay()
        try relay.run(Self.limits, in: "relay.sqlite")
        let (rows, files) = (try relay.rows(), try contents(of: relay))
        let copy = try copyOut(relay)
        #expect(copy.relay == relay.key.id && copy.rows == rows.mapValues(\.count))
        #expect(try contents(of: relay) == files)
        #expect(try await server.query("SELECT id FROM relay", in: database) == "\(relay.key.id)")
        // The next numbers are above all others.
        #expect(try await server.query("SELECT nextval('commands_sequence_seq')", in: database) == "9223372036854775807")
        let events = try #require(Int(try await server.query("SELECT max(id) FROM event", in: database)))
        #expect(try await server.query("SELECT nextval('event_id_seq')", in: database) == "\(events + 1)")

        let other = try StoredRelay(keysOf: relay)
        let back = try copyBack(to: other)
        #expect(back.rows == copy.rows)
        #expect(try other.rows() == rows)
        let present = try FileManager.default.contentsOfDirectory(atPath: other.directory)
        #expect(Set(present) == ["relay.key", "issuer.key", "relay.sqlite", "issuer.sqlite", "relay.lock"])
        // A relay takes the files for its own, not for a copy that lost something.
        let store = try SQLiteStore(directory: other.directory)
        #expect(store.droppedCommands == nil)
        store.close()
    }

    /// The schemas of both kinds differ in what the list says alone.
    @Test func databasesHaveTheSameTables() async throws {
        let relay = try await StoredRelay()
        _ = try copyOut(relay)
        let tables = try await server.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", in: database)
        let own: Set = ["schema", "relay", "probes", "node", "account_lease", "account_request", "push_token", "store_writer"]
        #expect(Set(tables.split(separator: "\n").map(String.init)).subtracting(own) == (try relay.tables()))
    }

    /// The files, and not what SQLite makes beside them.
    private func contents(of relay: StoredRelay) throws -> [Data] {
        try ["relay.sqlite", "issuer.sqlite", "relay.key", "issuer.key"].map {
            try Data(contentsOf: URL(filePath: "\(relay.directory)/\($0)"))
        }
    }

    // MARK: Refusals

    private func expectRefusal(_ words: String..., by copy: () throws -> StoreCopy) {
        do {
            _ = try copy()
            Issue.record("not refused: \(words)")
        } catch {
            #expect(words.allSatisfy { "\(error)".contains($0) }, "\(error)")
        }
    }

    @Test func receiverWithDataIsRefused() async throws {
        let relay = try await StoredRelay()
        _ = try copyOut(relay)
        expectRefusal("\(relay.key.id)", "createdb") { try copyOut(relay) }
        expectRefusal("relay.sqlite is there", "--data-directory") { try copyBack(to: relay) }
        // Some rows without a relay.
        try await server.query("UPDATE relay SET id = NULL", in: database)
        expectRefusal("createdb") { try copyOut(relay) }
    }

    @Test func copyNeedsTheRelaysKeys() async throws {
        let (relay, other) = (try await StoredRelay(), try await StoredRelay())
        let mixed = try StoredRelay(keysOf: relay)
        for name in ["relay.sqlite", "issuer.sqlite"] {
            try FileManager.default.copyItem(atPath: "\(other.directory)/\(name)", toPath: "\(mixed.directory)/\(name)")
        }
        expectRefusal("issuer's key file is not the one") { try copyOut(mixed) }
        #expect(try await server.query("SELECT count(*) FROM pg_tables WHERE tablename = 'relay'", in: database) == "0")
        _ = try copyOut(relay)
        let wrong = try await StoredRelay(hasRows: false)
        try FileManager.default.copyItem(atPath: "\(relay.directory)/issuer.key", toPath: "\(wrong.directory)/issuer.key")
        expectRefusal("belongs to relay \(relay.key.id)", "copy relay.key and issuer.key") { try copyBack(to: wrong) }
        try FileManager.default.removeItem(atPath: "\(wrong.directory)/issuer.key")
        expectRefusal("issuer.key is missing") { try copyBack(to: wrong) }
        #expect(throws: ConfigurationError.self) { try DataDirectory(temporaryDirectory(), .copied) }
    }

    @Test func runningRelayAndOpenRequestsAreRefused() async throws {
        let relay = try await StoredRelay()
        let lock = try StoreLock(directory: relay.directory)
        expectRefusal("another relay uses", "stop it") { try copyOut(relay) }
        lock.release()
        _ = try copyOut(relay)
        let other = try StoredRelay(keysOf: relay)
        let store = try PostgresStore(PostgresLocation(uri).parameters, version: "test") { 1 }
        expectRefusal("node 1 lives", "stop all nodes") { try copyBack(to: other) }
        store.close()
        try await server.query("INSERT INTO account_request (id, account, body, made) VALUES (1, 'a', '{}', 1)", in: database)
        expectRefusal("1 changes", "start a node") { try copyBack(to: other) }
        try await server.query("UPDATE account_request SET answer = '{}', answered = 1", in: database)
        _ = try copyBack(to: other)
        #expect(try other.rows() == relay.rows())
    }

    /// What such a copy lacks, a relay that starts with it takes into account.
    @Test func olderCopiesAreRefused() async throws {
        let relay = try await StoredRelay()
        let moved = try StoredRelay(keysOf: relay)
        for name in ["relay.sqlite", "issuer.sqlite"] {
            try FileManager.default.copyItem(atPath: "\(relay.directory)/\(name)", toPath: "\(moved.directory)/\(name)")
        }
        expectRefusal("is an older copy", "start the relay with it once") { try copyOut(moved) }
        try SQLiteStore(directory: moved.directory).close()
        _ = try copyOut(moved)
        try await server.query("UPDATE relay SET history = 'another'", in: database)
        let back = try StoredRelay(keysOf: relay)
        expectRefusal("restored copy", "start a node") { try copyBack(to: back) }
    }

    @Test func missingDatabasesAreNamed() async throws {
        let relay = try await StoredRelay(hasRows: false)
        _ = try StoredRelay.makeIssuerKey(in: relay)
        expectRefusal("relay.sqlite is missing") { try copyOut(relay) }
        expectRefusal("no relay's data") { try copyBack(to: relay) }
        let nowhere = "postgres:///nowhere?host=\(server.directory.path)&user=\(PostgresServer.user)"
        expectRefusal("nowhere") { try StoreCopy.make(from: nowhere, to: DataDirectory(relay.directory, .copied), progress: { _, _ in }) }
        #expect(!FileManager.default.fileExists(atPath: "\(relay.directory)/copying"))
    }

    /// SQLite has values of any kind in any column.
    @Test(arguments: [
        "UPDATE accounts SET created = 'x'", "UPDATE accounts SET created = 0.5", "UPDATE registrations SET registration = 'x'",
        "UPDATE pushes SET channel = X'61'", "UPDATE pushes SET channel = CAST(X'ff' AS TEXT)",
        "UPDATE pushes SET channel = CAST(X'6100' AS TEXT)",
    ])
    func damagedRowIsNotCopied(damage: String) async throws {
        let relay = try await StoredRelay()
        try relay.run(damage, in: "relay.sqlite")
        expectRefusal("is damaged", "relayd store check") { try copyOut(relay) }
        #expect(try await server.query("SELECT count(*) FROM accounts", in: database) == "0")
        #expect(try await server.query("SELECT count(id) FROM relay", in: database) == "0")
    }

    @Test(.enabled(if: SmallDisk.isPossible)) func fullReceiverStaysEmpty() async throws {
        let relay = try await StoredRelay()
        try relay.run(
            """
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
            INSERT INTO removed_identities SELECT hex(randomblob(200)), n, n FROM n
            """,
            in: "relay.sqlite"
        )
        _ = try copyOut(relay)
        let disk = try SmallDisk(megabytes: 6)
        let other = try StoredRelay(keysOf: relay)
        let place = disk.directory.appending(path: "relay").path
        try FileManager.default.copyItem(atPath: other.directory, toPath: place)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: place)
        expectRefusal("disk", "full") { try StoreCopy.make(from: uri, to: DataDirectory(place, .copied), progress: { _, _ in }) }
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: place)) == ["relay.key", "issuer.key", "relay.lock"])

        // A server whose disk has gone is of no use to other tests.
        let server = try await PostgresServer()
        let small = try SmallDisk(megabytes: 16)
        try await server.makeTablespace("small", in: small.directory)
        let name = "small_\(UUID().uuidString.prefix(8).lowercased())"
        try await server.query("CREATE DATABASE \(name) TABLESPACE small")
        let full = "postgres:///\(name)?host=\(server.directory.path)&user=\(PostgresServer.user)"
        expectRefusal("the disk of its server is full") {
            try StoreCopy.make(from: DataDirectory(relay.directory, .existing), to: full, progress: { _, _ in })
        }
        #expect(try await server.query("SELECT count(id) FROM relay", in: name) == "0")
        #expect(try await server.query("SELECT count(*) FROM accounts", in: name) == "0")
        try await server.query("DROP DATABASE \(name)")
        try await server.query("DROP TABLESPACE small")
    }

    // MARK: Upgrades

    @Test func upgradeIsFinishedWhenNoOlderNodeLives() async throws {
        let location = try PostgresLocation(uri)
        var configuration = RelayConfiguration(dataDirectory: "")
        configuration.store = .postgres(uri)
        let store = try PostgresStore(location.parameters, version: "0.9") { 1 }
        try await server.query("UPDATE schema SET version = 7", in: database)
        #expect {
            _ = try Nodes.finishUpgrade(configuration)
        } throws: { error in
            "\(error)".contains("node 1 is of version 0.9")
        }
        #expect(try await server.query("SELECT oldest FROM schema", in: database) == "1")
        store.close()
        #expect(try Nodes.finishUpgrade(configuration) == 7)
        #expect(try await server.query("SELECT oldest FROM schema", in: database) == "7")
        // Older software does not start any more, also if it has looked before.
        #expect(throws: StoreError.tooNew("the PostgreSQL database")) { try PostgresStore(location.parameters, version: "0.9") { 1 } }
        #expect(throws: PostgresSchema.SchemaTooNew.self) { try PostgresNode(location.parameters, url: nil, version: "0.9") { 1 } }
    }
}
#endif
