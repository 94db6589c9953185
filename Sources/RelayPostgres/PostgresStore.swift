// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
package import RelayServer
import RelayStorage

/// The store in a PostgreSQL database. Each account is always on one of several threads, each with a connection, a cache, and commits of its
/// own; the relay's own work has another one.
package final class PostgresStore: RelayStore {
    private static let threadCount = 8
    private static let largestGroup = 64

    /// A thread and what it uses.
    private struct Lane: Sendable {
        let thread: StoreThread
        nonisolated(unsafe) let writer: PostgresWriter

        func submit(_ work: StoreWork) {
            thread.submit(work) { group in
                _ = thread.join(&group)
                return writer.commit(group)
            }
        }
    }

    private let lanes: [Lane]
    private let global: Lane

    /// Opens a database, and creates its tables if there are none.
    /// - Parameter parameters: As in libpq's manual, section "Parameter Key Words".
    package init(_ parameters: [(name: String, value: String)], metrics: StoreMetrics = StoreMetrics()) throws(StoreError) {
        let parameters = parameters + PostgresSettings.parameters
        do {
            try PostgresSettings.prepare(parameters)
        } catch let error as PostgresError {
            throw StoreError(error)
        } catch let error as StoreError {
            throw error
        } catch is PostgresSchema.SchemaTooNew {
            throw .tooNew("the PostgreSQL database")
        } catch {
            throw .notADatabase("the PostgreSQL database")
        }
        let node = UUID().uuidString
        lanes = (0..<Self.threadCount).map { Self.lane($0, parameters, node, metrics) }
        global = Self.lane(Self.threadCount, parameters, node, metrics)
    }

    private static func lane(
        _ number: Int,
        _ parameters: [(name: String, value: String)],
        _ node: String,
        _ metrics: StoreMetrics
    ) -> Lane {
        Lane(
            thread: StoreThread("relay.store.\(number)", largestGroup: largestGroup, metrics: metrics),
            writer: PostgresWriter(parameters, node: node, thread: number)
        )
    }

    private subscript(account: AccountID?) -> Lane { account.map { lanes[$0.shard(of: Self.threadCount)] } ?? global }

    package func submit(_ work: StoreWork) { self[work.account].submit(work) }

    package func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        self[account].thread.hasRoom(for: channel, of: account, waiter: waiter)
    }

    /// Waits for submitted work. Later work fails.
    package func close() { for lane in lanes + [global] { lane.thread.sync { lane.writer.close() } } }
}

/// How the relay uses PostgreSQL.
enum PostgresSettings {
    private static let session = [
        ("synchronous_commit", "on"), ("statement_timeout", "4s"), ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "5s"), ("client_min_messages", "warning"),
        ("default_transaction_isolation", "read committed"),
    ]

    static let parameters = [
        (name: "options", value: session.map { "-c \($0.0)=\($0.1.replacing(" ", with: "\\ "))" }.joined(separator: " ")),
        (name: "application_name", value: "relayd"), (name: "client_encoding", value: "UTF8"),
        (name: "target_session_attrs", value: "read-write"), (name: "connect_timeout", value: "2"),
        (name: "tcp_user_timeout", value: "5000"), (name: "keepalives_idle", value: "5"), (name: "keepalives_interval", value: "5"),
    ]

    /// Checks that a database is suitable, and brings it to this software's version.
    static func prepare(_ parameters: [(name: String, value: String)]) throws {
        let connection = try PostgresConnection(parameters)
        try check(connection)
        try PostgresSchema.migrate(connection)
    }

    /// Checks what the server has made of the settings. A pooler in between may have dropped them.
    static func check(_ connection: PostgresConnection) throws {
        guard connection.serverVersion >= 150_000 else {
            throw StoreError.unavailable("its server is too old: PostgreSQL 15 or later is needed")
        }
        try connection.begin()
        for (name, value) in session {
            let found = try connection.run("SELECT current_setting(?)", [.text(name)]).rows.first?.text(0)
            // A stronger one is as good.
            guard found == value || name == "synchronous_commit" && found == "remote_apply" else {
                throw StoreError.unavailable(
                    """
                    its setting \(name) is \(found ?? "unknown"), not \(value): connect to the server directly, or by a pooler in session \
                    mode
                    """
                )
            }
        }
        try connection.rollback()
    }
}
#endif
