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
                SELECT CAST(n.id AS TEXT), n.number, n.url, n.version, n.started, n.dead IS NOT NULL, n.draining, n.takes,
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
                    phase: try row.flag(5) ? .dead : row.flag(6) ? .draining : row.flag(7) ? .serving : .suspended,
                    accounts: try row.flag(5) ? 0 : row.count(8)
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

    /// Lets no node of an older version start any more, once none lives.
    /// - Returns: The version of the schema that nodes need from now on.
    package func finishUpgrade() throws -> Int {
        let (version, old) = try transact { connection -> (Int, (number: Int, version: String)?) in
            // A node that starts waits for the row.
            let row = try connection.run("SELECT version FROM schema FOR UPDATE", []).rows.first
            guard let version = try row?.count(0) else { throw ColumnError() }
            let old = try connection.run(
                "SELECT number, version FROM node WHERE dead IS NULL AND schema < ? ORDER BY number LIMIT 1",
                [.integer(Int64(version))]
            ).rows.first
            if let old { return (version, (try old.count(0), try old.text(1))) }
            try connection.send("UPDATE schema SET oldest = version", [], mayWrite: true)
            return (version, nil)
        }
        guard let old else { return version }
        throw ConfigurationError(
            "node \(old.number) is of version \(old.version), which is too old: stop it, and see `relayd node list`, which may list it for some ten seconds more"
        )
    }

    /// Says that the database was restored to an earlier state. The nodes whose rows it has are gone.
    package func setRestored() throws(StoreError) {
        try transact { connection in
            // No server has this history, and no node has confirmed it. So the next node begins anew.
            try connection.send("UPDATE relay SET history = 'restored' WHERE history IS NOT NULL", [], mayWrite: true)
            try connection.send("UPDATE node SET dead = started WHERE dead IS NULL", [], mayWrite: true)
        }
    }

    func transact<Value>(_ body: (PostgresConnection) throws -> Value) throws(StoreError) -> Value {
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
