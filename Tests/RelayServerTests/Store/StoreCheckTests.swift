// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayIssuer
import RelayProtocol
import RelayServer
import RelayStorage
import RelayTesting
import Testing

@testable import RelayComposition

/// `relayd store check` finds each damaged row, and says nothing of its content.
@Suite(.timeLimit(.minutes(5))) struct StoreCheckTests {
    /// Damage that both kinds of databases take, with the statement without the table's name.
    private static let everywhere: [(table: String, change: String)] = [
        ("identities", "SET linker = X'00' WHERE issuer = 'embedded'"),
        ("endpoints", "SET record = X'63616e617279' WHERE id IN (SELECT endpoint FROM registrations)"),
        ("endpoints", "SET version = 1 WHERE id IN (SELECT endpoint FROM registrations)"),
        ("registrations", "SET registration = X'63616e617279'"),
        ("vouchers", "SET voucher = X'63616e617279'"),
        ("pushes", "SET channel = '{\"type\":\"canary'"),
        ("revoked", "SET revocation = X'63616e617279' WHERE revocation IS NOT NULL"),
        ("commands", "SET blob = X'63616e617279' WHERE state = 0"),
        ("commands", "SET blob = X'63616e617279' WHERE state = 1"),
        ("commands", "SET outcome = 'canary' WHERE reply IS NOT NULL"),
        ("commands", "SET receipt = X'63616e617279' WHERE reply IS NOT NULL"),
        ("commands", "SET reply = X'63616e617279' WHERE reply IS NOT NULL"),
        ("app_identities", "SET id = 'a..b'"),
        ("apps", "SET platform = 'canary'"),
        ("push_credentials", "SET sealed = X'63616e617279'"),
        ("push_credentials", "SET type = 'canary'"),
        ("seal", "SET sealed = X'63616e617279'"),
        ("user", "SET key = 'canary' WHERE subject LIKE 'ada%'"),
        ("password", "SET hash = '$scrypt$canary'"),
        ("passkey", "SET key = X'63616e617279'"),
        ("event", "SET kind = 'canary' WHERE kind = 'signedIn'"),
        ("login", "SET scopes = 'canary canary'"),
        ("login", "SET invited_by = '0000000000000000000000000000000000000000000000000000'"),
        ("authorization_code", "SET scopes = '\"'"),
        ("device_authorization", "SET scopes = '\"'"),
        ("signing_key", "SET sealed = X'63616e617279'"),
    ]

    /// Damage that SQLite alone takes, since it has values of any kind and size in any column.
    private static let inFiles: [(table: String, change: String)] = [
        ("meta", "SET began = 'canary'"),
        ("accounts", "SET created = X'63616e617279' WHERE name IS NOT NULL"),
        ("quotas", "SET value = 'canary'"),
        ("removed_identities", "SET removed = 'canary'"),
        ("revoked_tokens", "SET ends = 'canary'"),
        ("pushes", "SET registered = 0.5"),
        ("commands", "SET number = 'canary' WHERE state = 0"),
        ("app_identities", "SET created = 'canary'"),
        ("set_up", "SET token = X'63616e617279'"),
        ("recovery_code", "SET code = X'63616e617279' WHERE code = (SELECT max(code) FROM recovery_code)"),
        ("web_session", "SET id = X'63616e617279'"),
        ("invitation", "SET inviter = 'canary'"),
        ("resource_server", "SET secret = X'63616e617279'"),
        ("issuer_used", "SET id = X'63616e617279'"),
        ("issuer_attempts", "SET id = X'63616e617279'"),
    ]

    private func file(of table: String) -> String {
        RelayTables.all.contains { $0.name == table } ? RelayTables.fileName : IssuerTables.fileName
    }

    private func check(_ relay: StoredRelay, _ store: StoreLocation = .dataDirectory) throws -> (
        damages: [StoreCheck.Damage], rows: [String: Int]
    ) {
        var configuration = RelayConfiguration(dataDirectory: relay.directory)
        configuration.store = store
        var damages: [StoreCheck.Damage] = []
        let check = try StoreCheck.run(configuration, progress: { _, _ in }, damaged: { damages.append($0) })
        return (damages, check.rows)
    }

    private func expect(_ damages: [StoreCheck.Damage], in table: String, _ change: String) {
        #expect(damages.map(\.table) == [table], "\(table) \(change): \(damages)")
        // A key may be damaged, too, and is then named as it is.
        guard !change.hasPrefix("SET id"), !change.hasPrefix("SET code"), table != "apps" else { return }
        #expect(!"\(damages)".contains("canary") && !"\(damages)".contains("63616e617279"), "\(damages)")
    }

    @Test func wholeRowsAreWhole() async throws {
        let relay = try await StoredRelay()
        let (damages, rows) = try check(relay)
        #expect(damages == [])
        #expect(try rows == relay.rows().mapValues(\.count))
        #expect(rows.allSatisfy { $0.value > 0 }, "\(rows)")
        // The list has every table.
        #expect(try Set(rows.keys) == relay.tables())
        let damaged = Set((Self.everywhere + Self.inFiles).map(\.table))
        #expect(damaged == Set(rows.keys))
    }

    @Test func damagedRowOfEachTableIsFoundInFiles() async throws {
        for (table, change) in Self.everywhere + Self.inFiles {
            let relay = try await StoredRelay()
            try relay.run("UPDATE \"\(table)\" \(change)", in: file(of: table))
            expect(try check(relay).damages, in: table, change)
        }
    }

    /// Without the key, what it has sealed cannot be opened.
    @Test func wrongKeysAreFound() async throws {
        let (relay, other) = (try await StoredRelay(), try await StoredRelay())
        for (key, tables) in [("relay.key", ["push_credentials"]), ("issuer.key", ["seal", "signing_key"])] {
            let path = "\(relay.directory)/\(key)"
            let own = try Data(contentsOf: URL(filePath: path))
            try Data(contentsOf: URL(filePath: "\(other.directory)/\(key)")).write(to: URL(filePath: path))
            #expect(try check(relay).damages.map(\.table) == tables)
            try own.write(to: URL(filePath: path))
        }
        #expect(try check(relay).damages == [])
    }

    #if Postgres
    @Test(.enabled(if: PostgresServer.isPossible)) func damagedRowOfEachTableIsFoundInPostgreSQL() async throws {
        let server = try await PostgresServer.shared
        let (relay, uri) = (try await StoredRelay(), try await server.makeURI())
        _ = try StoreCopy.make(from: DataDirectory(relay.directory, .existing), to: uri, progress: { _, _ in })
        #expect(try check(relay, .postgres(uri)).damages == [])
        let database = try #require(uri.firstMatch(of: /test_\w+/)).output
        // Damage that a disk, or an operator, does.
        let constraints = """
            SELECT string_agg(format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname), ';') FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace AND contype IN ('f', 'c')
            """
        try await server.query(server.query(constraints, in: String(database)), in: String(database))
        for (table, change) in Self.everywhere {
            // None is dropped: that waits until the server has written those of all tests to its disk.
            let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
            try await server.query("CREATE DATABASE \(name) TEMPLATE \(database)")
            let copy = uri.replacing(database, with: name)
            let literals = change.replacing(/X'(\w*)'/) { "'\\x\($0.output.1)'" }
            try await server.query("UPDATE \"\(table)\" \(literals)", in: name)
            expect(try check(relay, .postgres(copy)).damages, in: table, change)
        }
        // Requests to nodes, and what they share, are in PostgreSQL alone.
        try await server.query("INSERT INTO account_request (id, account, body, made) VALUES (1, 'a', 'canary', 1)", in: String(database))
        expect(try check(relay, .postgres(uri)).damages, in: "account_request", "")
        try await server.query("DELETE FROM account_request", in: String(database))
        try await server.query("INSERT INTO push_token (credential, version, sealed) VALUES ('a', 1, 'canary')", in: String(database))
        expect(try check(relay, .postgres(uri)).damages, in: "push_token", "")
    }
    #endif
}
