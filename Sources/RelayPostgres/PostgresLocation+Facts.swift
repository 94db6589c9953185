// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
package import RelayServer
import RelayStorage

extension PostgresLocation {
    /// What the server says of itself.
    package struct Facts: Sendable {
        package var version: String
        /// Whether commits wait for a standby.
        package var isSynchronous: Bool
        /// The servers that follow it now.
        package var standbys: Int
    }

    /// Asks the primary. A standby alone is an error.
    package func facts() throws(StoreError) -> Facts {
        try transact { connection in
            let rows = try connection.run(
                """
                SELECT current_setting('server_version'), current_setting('synchronous_standby_names') <> '',
                    (SELECT count(*) FROM pg_stat_replication)
                """,
                []
            ).rows
            guard let row = rows.first else { throw ColumnError() }
            return Facts(version: try row.text(0), isSynchronous: try row.flag(1), standbys: try row.count(2))
        }
    }
}
#endif
