// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// Rows in SQLite: the directory. The commands are in `SQLiteTransaction+Commands.swift`.
struct SQLiteTransaction: StoreTransaction {
    let database: Database

    func failure(_ error: any Error) -> any Error { error is DatabaseError ? SQLiteStore.unavailable(error) : error }

    func probe() throws { try database.execute(sql: "PRAGMA user_version = 0") }

    func databaseBegan() throws -> Int64? {
        try Int64.fetchOne(statement("SELECT began FROM meta"))
    }

    func setDatabaseBegan(_ time: Int64) throws {
        try run("INSERT INTO meta (id, began) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET began = excluded.began", [time])
    }

    // MARK: Accounts

    func account(of identity: Identity) throws -> AccountID? {
        try String.fetchOne(
            statement("SELECT account FROM identities WHERE issuer = ? AND subject = ?"),
            arguments: .bound(identity.issuer, identity.subject)
        ).map { AccountID($0) }
    }

    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws {
        try run("INSERT INTO accounts (id, created) VALUES (?, ?)", [id.rawValue, time])
        try run(
            "INSERT INTO identities (issuer, subject, account, added) VALUES (?, ?, ?, ?)",
            [identity.issuer, identity.subject, id.rawValue, time]
        )
    }

    // MARK: Endpoints

    private static let endpointColumns = """
        id, account, version, record, has_hosted, departure, departed, system, thumbprint, established, joined, inviter, address, issuer,
            session, root
        """

    private func endpoint(_ row: Row) throws -> EndpointRow {
        let departure: String? = row[5]
        let departed: Int64? = row[6]
        return EndpointRow(
            id: try row.endpoint(at: 0),
            account: AccountID(row[1]),
            version: NumberColumn.decode(row[2]),
            record: try row.bytes(at: 3),
            hasHosted: row[4],
            departure: departure.flatMap { reason in
                departed.map { EndpointRow.Departure(reason: Presence.Reason(rawValue: reason), time: $0) }
            },
            system: SystemID(digest: try row.digest(at: 7)),
            keyThumbprint: row[8],
            isEstablished: row[9],
            isRoot: row[15],
            joining: Joining(
                time: Milliseconds(clamping: row[10]),
                invitedBy: try row.hasNull(atIndex: 11) ? nil : row.endpoint(at: 11),
                address: row[12]
            ),
            login: Self.login(row, 13)
        )
    }

    /// Reads two columns, issuer and session.
    static func login(_ row: Row, _ column: Int) -> Login? {
        guard let issuer: String = row[column], let session: String = row[column + 1] else { return nil }
        return Login(issuer: issuer, session: session)
    }

    func endpoint(keyThumbprint: String) throws -> EndpointRow? {
        try Row.fetchOne(
            statement("SELECT \(Self.endpointColumns) FROM endpoints WHERE thumbprint = ?"),
            arguments: .bound(keyThumbprint)
        ).map { try endpoint($0) }
    }

    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow? {
        try Row.fetchOne(
            statement("SELECT \(Self.endpointColumns) FROM endpoints WHERE id = ? AND account = ?"),
            arguments: .bound(id.column, account.rawValue)
        ).map { try endpoint($0) }
    }

    func account(ofEndpoint id: EndpointID) throws -> AccountID? {
        try String.fetchOne(statement("SELECT account FROM endpoints WHERE id = ?"), arguments: .bound(id.column)).map { AccountID($0) }
    }

    func endpoints(of account: AccountID) throws -> [EndpointRow] {
        try Array(
            Row.fetchCursor(
                statement("SELECT \(Self.endpointColumns) FROM endpoints WHERE account = ? ORDER BY id"),
                arguments: .bound(account.rawValue)
            ).map { try endpoint($0) }
        )
    }

    func directory(of account: AccountID) throws -> [DirectoryEntry] {
        let (registrations, vouchers) = (try registrations(in: account), try vouchers(in: account))
        return try endpoints(of: account).map { row in
            DirectoryEntry(
                endpoint: row,
                introduction: Introduction(record: Blob(row.record), vouchers: vouchers[row.id] ?? []),
                registrations: registrations[row.id] ?? []
            )
        }
    }

    private func registrations(in account: AccountID) throws -> [EndpointID: [Blob<BlobKinds.AppRegistration>]] {
        try blobs(
            """
            SELECT registrations.endpoint, registration
            FROM endpoints JOIN registrations ON registrations.endpoint = endpoints.id
            WHERE endpoints.account = ? ORDER BY app
            """,
            account
        )
    }

    private func vouchers(in account: AccountID) throws -> [EndpointID: [Blob<BlobKinds.Voucher>]] {
        try blobs("SELECT endpoint, voucher FROM vouchers WHERE account = ? ORDER BY giver", account)
    }

    private func blobs<Kind>(_ sql: String, _ account: AccountID) throws -> [EndpointID: [Blob<Kind>]] {
        let rows = try Row.fetchCursor(statement(sql), arguments: .bound(account.rawValue))
        var blobs: [EndpointID: [Blob<Kind>]] = [:]
        while let row = try rows.next() { blobs[try row.endpoint(at: 0), default: []].append(Blob(try row.bytes(at: 1))) }
        return blobs
    }

    func put(_ endpoint: EndpointRow) throws {
        try run(
            """
            INSERT INTO endpoints (\(Self.endpointColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, record = excluded.record,
                has_hosted = excluded.has_hosted, departure = excluded.departure, departed = excluded.departed,
                system = excluded.system, established = excluded.established, root = excluded.root, issuer = excluded.issuer,
                session = excluded.session
                WHERE account = excluded.account
            """,
            [
                endpoint.id.column, endpoint.account.rawValue, NumberColumn.encode(endpoint.version), Data(endpoint.record),
                endpoint.hasHosted, endpoint.departure?.reason.rawValue, endpoint.departure?.time,
                endpoint.system.column, endpoint.keyThumbprint, endpoint.isEstablished, endpoint.joining.time.count,
                endpoint.joining.invitedBy?.column, endpoint.joining.address, endpoint.login?.issuer, endpoint.login?.session,
                endpoint.isRoot,
            ]
        )
        guard database.changesCount == 1 else { throw RowError.ofOtherAccount }
    }

    func removeEndpoint(_ id: EndpointID, of account: AccountID) throws {
        try run("DELETE FROM endpoints WHERE id = ? AND account = ?", [id.column, account.rawValue])
    }

    // MARK: Use

    func storedBytes(of account: AccountID) throws -> Int {
        let sum = try Double.fetchOne(
            statement(
                """
                SELECT total(bytes) FROM (
                    SELECT \(AccountUse.overhead) + CASE state
                        WHEN 2 THEN coalesce(length(receipt), 0) + coalesce(length(reply), 0) ELSE size END AS bytes
                    FROM commands WHERE account = ?
                    UNION ALL
                    SELECT \(AccountUse.overhead) + length(registration)
                    FROM registrations JOIN endpoints ON endpoints.id = registrations.endpoint WHERE endpoints.account = ?
                )
                """
            ),
            arguments: .bound(account.rawValue, account.rawValue)
        )
        return Int(clamping: Int64(sum ?? 0))
    }

    // MARK: Values

    /// The error for a row that must not be written.
    enum RowError: Error {
        case ofOtherAccount
    }

    func statement(_ sql: String) throws -> Statement { try database.cachedStatement(sql: sql) }

    func run(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws { try database.run(sql, arguments) }
}
