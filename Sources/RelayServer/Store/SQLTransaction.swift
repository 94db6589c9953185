// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
package import RelayStorage

/// A database of a store: a database with statements that can tell what its errors mean, and whether it can write.
package protocol StoreDatabase: SQLDatabase {
    /// Writes an arbitrary value.
    func probe() throws
    /// Converts an error of a statement.
    func failure(_ error: any Error) -> any Error
    /// Whether several nodes use the database. Then the rows of an account are written by its node only, and others leave requests.
    static var isShared: Bool { get }
}

extension StoreDatabase {
    /// The rows of a transaction.
    /// - Parameter cache: Values in memory that follow the writes.
    package func transaction(cache: StoreCache?) -> any StoreTransaction {
        let rows = SQLTransaction(database: self)
        return if let cache { CachingTransaction(backend: rows, cache: cache) } else { rows }
    }
}

/// The rows of a store in a database: the directory. The commands are in `SQLTransaction+Commands.swift`.
struct SQLTransaction<Database: StoreDatabase>: StoreTransaction {
    let database: Database

    func failure(_ error: any Error) -> any Error { database.failure(error) }

    func probe() throws { try database.probe() }

    func databaseBegan() throws -> Int64? {
        try database.first("SELECT began FROM meta") { try $0.integer(0) }
    }

    func setDatabaseBegan(_ time: Int64) throws {
        try database.execute("INSERT INTO meta (id, began) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET began = excluded.began", [time])
    }

    // MARK: Accounts

    func account(of identity: Identity) throws -> AccountID? {
        try database.first("SELECT account FROM identities WHERE issuer = ? AND subject = ?", [identity.issuer, identity.subject]) {
            AccountID(try $0.text(0))
        }
    }

    func addAccount(_ id: AccountID, identity: Identity, time: Int64) throws {
        try database.execute("INSERT INTO accounts (id, created) VALUES (?, ?)", [id.rawValue, time])
        try database.execute(
            "INSERT INTO identities (issuer, subject, account, added) VALUES (?, ?, ?, ?)",
            [identity.issuer, identity.subject, id.rawValue, time]
        )
    }

    // MARK: Endpoints

    static var endpointColumns: String {
        """
        id, account, version, record, has_hosted, departure, departed, system, thumbprint, established, joined, inviter, address, issuer,
            session, root
        """
    }

    func endpoint(_ row: Database.ResultRow) throws -> EndpointRow {
        let reason = try row.optional(5, row.text)
        let departed = try row.optional(6, row.integer)
        return EndpointRow(
            id: try row.endpoint(0),
            account: AccountID(try row.text(1)),
            version: try row.number(2),
            record: try row.bytes(3),
            hasHosted: try row.flag(4),
            departure: reason.flatMap { reason in
                departed.map { EndpointRow.Departure(reason: Presence.Reason(rawValue: reason), time: $0) }
            },
            system: SystemID(digest: try row.digest(7)),
            keyThumbprint: try row.text(8),
            isEstablished: try row.flag(9),
            isRoot: try row.flag(15),
            joining: Joining(
                time: Milliseconds(clamping: try row.integer(10)),
                invitedBy: try row.optional(11, row.endpoint),
                address: try row.optional(12, row.text)
            ),
            login: try Self.login(row, 13)
        )
    }

    /// Reads two columns, issuer and session.
    static func login(_ row: Database.ResultRow, _ column: Int) throws -> Login? {
        guard let issuer = try row.optional(column, row.text), let session = try row.optional(column + 1, row.text) else { return nil }
        return Login(issuer: issuer, session: session)
    }

    func endpoint(keyThumbprint: String) throws -> EndpointRow? {
        try database.first("SELECT \(Self.endpointColumns) FROM endpoints WHERE thumbprint = ?", [keyThumbprint], endpoint)
    }

    func endpoint(_ id: EndpointID, of account: AccountID) throws -> EndpointRow? {
        try database.first(
            "SELECT \(Self.endpointColumns) FROM endpoints WHERE id = ? AND account = ?",
            [id.column, account.rawValue],
            endpoint
        )
    }

    func account(ofEndpoint id: EndpointID) throws -> AccountID? {
        try database.first("SELECT account FROM endpoints WHERE id = ?", [id.column]) { AccountID(try $0.text(0)) }
    }

    func endpoints(of account: AccountID) throws -> [EndpointRow] {
        try database.rows(
            "SELECT \(Self.endpointColumns) FROM endpoints WHERE account = ? ORDER BY id",
            [account.rawValue],
            endpoint
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
        let rows = try database.rows(sql, [account.rawValue]) { (try $0.endpoint(0), Blob<Kind>(try $0.bytes(1))) }
        return rows.reduce(into: [:]) { blobs, row in blobs[row.0, default: []].append(row.1) }
    }

    func put(_ endpoint: EndpointRow) throws {
        let changes = try database.changes(
            """
            INSERT INTO endpoints (\(Self.endpointColumns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, record = excluded.record,
                has_hosted = excluded.has_hosted, departure = excluded.departure, departed = excluded.departed,
                system = excluded.system, established = excluded.established, root = excluded.root, issuer = excluded.issuer,
                session = excluded.session
                WHERE endpoints.account = excluded.account
            """,
            [
                endpoint.id.column, endpoint.account.rawValue, NumberColumn.encode(endpoint.version), Data(endpoint.record),
                endpoint.hasHosted, endpoint.departure?.reason.rawValue, endpoint.departure?.time,
                endpoint.system.column, endpoint.keyThumbprint, endpoint.isEstablished, endpoint.joining.time.count,
                endpoint.joining.invitedBy?.column, endpoint.joining.address, endpoint.login?.issuer, endpoint.login?.session,
                endpoint.isRoot,
            ]
        )
        guard changes == 1 else { throw RowError.ofOtherAccount }
    }

    func removeEndpoint(_ id: EndpointID, of account: AccountID) throws {
        try database.execute("DELETE FROM endpoints WHERE id = ? AND account = ?", [id.column, account.rawValue])
    }

    // MARK: Use

    func storedBytes(of account: AccountID) throws -> Int {
        let sum = try database.first(
            """
            SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM (
                SELECT \(AccountUse.overhead) + CASE state
                    WHEN 2 THEN coalesce(length(receipt), 0) + coalesce(length(reply), 0) ELSE size END AS bytes
                FROM commands WHERE account = ?
                UNION ALL
                SELECT \(AccountUse.overhead) + length(registration)
                FROM registrations JOIN endpoints ON endpoints.id = registrations.endpoint WHERE endpoints.account = ?
            ) AS sizes
            """,
            [account.rawValue, account.rawValue]
        ) { try $0.count(0) }
        return sum ?? 0
    }
}

/// The error for a row that must not be written.
enum RowError: Error {
    case ofOtherAccount
}
