// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
package import RelayServer

extension PostgresStore {
    /// What this node does, for the metrics. What the whole database contains is counted by no node: monitoring asks PostgreSQL.
    package var samples: [MetricSample] {
        let counts = lanes.map(\.counts)
        return [
            MetricSample("relay_node_accounts", Double(counts.reduce(0) { $0 + $1.served })),
            MetricSample("relay_node_leases_taken_total", Double(counts.reduce(0) { $0 + $1.taken })),
            MetricSample("relay_node_leases_lost_total", Double(counts.reduce(0) { $0 + $1.lost })),
            MetricSample("relay_node_suspended", node.isSuspended ? 1 : 0),
        ]
    }
}
#endif
