// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayServer
import RelayStorage

/// The leases that a node holds for one thread of its store, and the statements about them. Used on that thread.
final class PostgresLeases {
    private struct Lease {
        var epoch: Int64
        /// When the node has taken it.
        var since: Milliseconds
    }

    private var held: [AccountID: Lease] = [:]
    private var lost: [AccountID] = []

    func has(_ account: AccountID) -> Bool { held[account] != nil }
    func since(_ account: AccountID) -> Milliseconds? { held[account]?.since }
    var count: Int { held.count }
    var accounts: [AccountID] { Array(held.keys) }

    /// The accounts whose leases are lost since the last call.
    func takeLost() -> [AccountID] {
        defer { lost = [] }
        return lost
    }

    private func lose(_ account: AccountID) { if held.removeValue(forKey: account) != nil { lost.append(account) } }

    func loseAll() {
        lost += held.keys
        held = [:]
    }

    // MARK: The fence

    /// The leases that a transaction needs, as two lists of the same length.
    private static let needed = """
        unnest(string_to_array(CAST(? AS TEXT), ','), CAST(string_to_array(CAST(? AS TEXT), ',') AS BIGINT[])) AS needed (account, epoch)
        """

    private func parameters(_ accounts: Set<AccountID>) -> [SQLValue] {
        let leases = accounts.compactMap { account in held[account].map { (account, $0.epoch) } }
        return [
            .text(leases.map(\.0.rawValue).joined(separator: ",")), .text(leases.map { "\($0.1)" }.joined(separator: ",")),
        ]
    }

    /// Sends a statement that fails unless this node has the leases. After writes, it keeps them from being taken until the commit.
    func sendFence(for group: [StoreWork], writes: Bool, node: NodeID, on connection: PostgresConnection) throws(PostgresError) {
        let accounts = Set(group.compactMap(\.account))
        guard !accounts.isEmpty else { return }
        try connection.send(
            """
            SELECT 1 / CAST(count(*) = ? AS INTEGER) FROM (
                SELECT 1 FROM account_lease l JOIN \(Self.needed) ON l.account = needed.account AND l.epoch = needed.epoch
                WHERE l.node = ? ORDER BY l.account\(writes ? " FOR SHARE OF l" : "")
            ) present
            """,
            [.integer(Int64(accounts.count))] + parameters(accounts) + [.text("\(node)")]
        )
    }

    /// Finds out which leases of a group are lost.
    func lookForLost(_ group: [StoreWork], node: NodeID, on connection: PostgresConnection) throws -> Set<AccountID> {
        let accounts = Set(group.compactMap(\.account))
        try connection.begin()
        let present = try connection.run(
            """
            SELECT l.account FROM account_lease l JOIN \(Self.needed) ON l.account = needed.account AND l.epoch = needed.epoch
            WHERE l.node = ?
            """,
            parameters(accounts) + [.text("\(node)")]
        )
        let gone = accounts.subtracting(try present.rows.map { AccountID(try $0.text(0)) })
        try connection.commit()
        for account in gone { lose(account) }
        return gone
    }

    // MARK: Taking and giving back

    /// The accounts of identities. An identity that has none is absent.
    static func accounts(of identities: [Identity], on connection: PostgresConnection) throws -> [Identity: AccountID] {
        let wanted = String(decoding: try JSONEncoder().encode(identities.map { [$0.issuer, $0.subject] }), as: UTF8.self)
        let found = try connection.run(
            """
            SELECT i.issuer, i.subject, i.account FROM identities i JOIN jsonb_array_elements(CAST(CAST(? AS TEXT) AS JSONB)) AS wanted (pair)
            ON i.issuer = (wanted.pair ->> 0) AND i.subject = (wanted.pair ->> 1)
            """,
            [.text(wanted)]
        )
        return try found.rows.reduce(into: [:]) { accounts, row in
            accounts[Identity(issuer: try row.text(0), subject: try row.text(1))] = AccountID(try row.text(2))
        }
    }

    enum Taken: Hashable {
        case here(epoch: Int64)
        case elsewhere(NodeID, Origin?)
    }

    /// Takes the leases of accounts that no live node has. Call `took` when the transaction is stored.
    /// - Parameter began: Since when the database is complete, as the node knows. It takes nothing before it knows better.
    /// - Returns: What became of each. A lease that is being taken by another node is absent.
    static func take(_ accounts: [AccountID], for node: NodeID, since began: Int64?, on connection: PostgresConnection) throws
        -> [AccountID: Taken]
    {
        let list = SQLValue.text(accounts.map(\.rawValue).sorted().joined(separator: ","))
        let own = SQLValue.text("\(node)")
        // The locks keep the rows as they are, so that the second statement, which sees all that is stored by then, decides on them. Rows
        // that are locked belong to a node that lives, or are being taken by another one.
        let free = try connection.run(
            """
            SELECT l.account FROM account_lease l WHERE l.account = ANY (string_to_array(CAST(? AS TEXT), ','))
            AND (l.node IS NULL OR l.node = ? OR NOT EXISTS (SELECT 1 FROM node n WHERE n.id = l.node AND n.dead IS NULL))
            ORDER BY l.account FOR UPDATE SKIP LOCKED
            """,
            [list, own]
        )
        let locked = SQLValue.text(try free.rows.map { try $0.text(0) }.joined(separator: ","))
        let taken = try connection.run(
            """
            WITH living AS (
                SELECT 1 FROM node WHERE id = ? AND dead IS NULL
                AND (SELECT began FROM meta) IS NOT DISTINCT FROM coalesce(CAST(? AS BIGINT), (SELECT began FROM meta))
            ),
            renewed AS (
                UPDATE account_lease l SET node = ?, epoch = l.epoch + 1
                WHERE l.account = ANY (string_to_array(CAST(? AS TEXT), ',')) AND EXISTS (SELECT 1 FROM living)
                AND (l.node IS NULL OR l.node = ? OR NOT EXISTS (SELECT 1 FROM node n WHERE n.id = l.node AND n.dead IS NULL))
                RETURNING l.account, l.epoch
            ),
            made AS (
                INSERT INTO account_lease (account, node, epoch)
                SELECT wanted.account, ?, 1 FROM unnest(string_to_array(CAST(? AS TEXT), ',')) AS wanted (account)
                WHERE EXISTS (SELECT 1 FROM living) AND NOT EXISTS (SELECT 1 FROM account_lease l WHERE l.account = wanted.account)
                ORDER BY wanted.account ON CONFLICT (account) DO NOTHING RETURNING account, epoch
            )
            SELECT account, epoch FROM renewed UNION ALL SELECT account, epoch FROM made
            """,
            [own, began.map { .integer($0) }, own, locked, own, own, list],
            mayWrite: true
        )
        var result: [AccountID: Taken] = [:]
        for row in try taken.rows.map({ (AccountID(try $0.text(0)), try $0.integer(1)) }) { result[row.0] = .here(epoch: row.1) }
        let others = try connection.run(
            """
            SELECT l.account, CAST(n.id AS TEXT), n.url FROM account_lease l JOIN node n ON n.id = l.node
            WHERE l.account = ANY (string_to_array(CAST(? AS TEXT), ',')) AND n.dead IS NULL
            """,
            [list]
        )
        for row in others.rows {
            let account = AccountID(try row.text(0))
            guard result[account] == nil, let other = NodeID(try row.text(1)), other != node else { continue }
            result[account] = .elsewhere(other, try row.optional(2, row.text).flatMap { Origin($0) })
        }
        return result
    }

    func took(_ account: AccountID, epoch: Int64, at time: Milliseconds) { held[account] = Lease(epoch: epoch, since: time) }

    /// Gives leases back. Call `gaveBack` when the transaction is stored.
    func sendGivingBack(_ accounts: [AccountID], node: NodeID, on connection: PostgresConnection) throws {
        try connection.send(
            """
            UPDATE account_lease l SET node = NULL FROM \(Self.needed)
            WHERE l.account = needed.account AND l.epoch = needed.epoch AND l.node = ?
            """,
            parameters(Set(accounts)) + [.text("\(node)")],
            mayWrite: true
        )
        // Nothing is left of an account that was removed, or that was never there.
        try connection.send(
            """
            DELETE FROM account_lease l WHERE l.account = ANY (string_to_array(CAST(? AS TEXT), ',')) AND l.node IS NULL
            AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = l.account)
            """,
            [.text(accounts.map(\.rawValue).joined(separator: ","))],
            mayWrite: true
        )
    }

    func gaveBack(_ accounts: [AccountID]) { for account in accounts { lose(account) } }
}
#endif
