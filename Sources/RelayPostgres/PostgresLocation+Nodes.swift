// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
package import RelayServer
import RelayStorage

extension PostgresLocation {
    /// The nodes that live, and those that were found dead in the last day, in the order of their starts.
    package func nodes() throws(StoreError) -> [NodeState] {
        try transact { connection in
            let rows = try connection.run(
                """
                SELECT CAST(n.id AS TEXT), n.number, n.url, n.version, n.started, n.dead IS NOT NULL, n.draining,
                    (SELECT count(*) FROM account_lease l WHERE l.node = n.id)
                FROM node n ORDER BY n.number
                """,
                []
            ).rows
            return try rows.map { row in
                NodeState(
                    id: try row.text(0),
                    number: try row.count(1),
                    url: try row.optional(2, row.text),
                    version: try row.text(3),
                    started: try row.integer(4),
                    phase: try row.flag(5) ? .dead : row.flag(6) ? .draining : .serving,
                    accounts: try row.flag(5) ? 0 : row.count(7)
                )
            }
        }
    }

    /// Lets a node give its accounts to others, and take no more.
    /// - Returns: Whether there is a live node of this number.
    package func drain(_ number: Int) throws(StoreError) -> Bool {
        try transact { connection in
            let changes = try connection.run(
                "UPDATE node SET draining = 1 WHERE number = ? AND dead IS NULL",
                [.integer(Int64(number))],
                mayWrite: true
            ).changes
            return changes == 1
        }
    }

    private func transact<Value>(_ body: (PostgresConnection) throws -> Value) throws(StoreError) -> Value {
        _ = try prepare()
        return try Self.translated {
            let connection = try PostgresConnection(PostgresSettings.parameters(connected, of: nil))
            try connection.begin()
            let value = try body(connection)
            try connection.commit()
            return value
        }
    }
}
#endif
