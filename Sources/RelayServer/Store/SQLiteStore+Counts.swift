// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB

extension SQLiteStore {
    /// What the database contains, for the metrics. It is read on a connection of its own, so that no commit waits for it. Empty if it cannot
    /// be read.
    package var samples: [MetricSample] {
        var configuration = Configuration()
        configuration.readonly = true
        return (try? DatabaseQueue(path: database.path, configuration: configuration).read(Self.counts)) ?? []
    }

    private static func counts(_ database: Database) throws -> [MetricSample] {
        // An index has all that the second statement needs.
        let row = try Row.fetchOne(
            database,
            sql: """
                SELECT (SELECT count(*) FROM accounts) AS accounts, (SELECT count(*) FROM endpoints) AS endpoints,
                    (SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()) AS database,
                    count(*) AS commands, total(size) AS bytes FROM commands WHERE state < 2
                """
        )
        guard let row else { return [] }
        return [
            MetricSample("relay_accounts", row["accounts"]), MetricSample("relay_endpoints", row["endpoints"]),
            MetricSample("relay_waiting_commands", row["commands"]), MetricSample("relay_waiting_command_bytes", row["bytes"]),
            MetricSample("relay_store_database_bytes", row["database"]),
        ]
    }
}
