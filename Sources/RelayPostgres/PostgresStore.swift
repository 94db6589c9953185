// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
package import RelayProtocol
package import RelayServer
import RelayStorage
import Synchronization

/// The store in a PostgreSQL database that several nodes share. Each account is always on one of several threads, each with a connection, a
/// cache, and commits of its own; the relay's own work has another one.
package final class PostgresStore: RelayStore, AccountLeases {
    private static let threadCount = 8
    /// How many seconds a stopping node waits for its database.
    private static let patience = 5.0

    /// What the threads call. They are made before it is complete.
    private struct Links {
        var lanes: [PostgresLane] = []
        var report: @Sendable (LeaseEvent) -> Void = { _ in }
    }

    let node: PostgresNode
    let lanes: [PostgresLane]
    private let global: PostgresLane
    private let links: SharedLinks

    private final class SharedLinks: Sendable { let value = Mutex(Links()) }

    /// Answers of all threads.
    private final class Answers: Sendable {
        private let state: Mutex<(missing: Int, areAllTrue: Bool)>

        init(_ count: Int) { state = Mutex((count, true)) }

        /// - Returns: Whether all are true, after the last one.
        func add(_ answer: Bool) -> Bool? {
            state.withLock { state in
                state = (state.missing - 1, state.areAllTrue && answer)
                return state.missing == 0 ? state.areAllTrue : nil
            }
        }
    }

    /// Opens a database, and creates its tables if there are none.
    /// - Parameters:
    ///   - parameters: As in libpq's manual, section "Parameter Key Words".
    ///   - url: Where endpoints reach this node.
    ///   - version: This software's version.
    ///   - file: What the node's former start on this machine has left; `nil` if nothing is kept.
    ///   - common: Where a node without its database looks for others; `nil` if it does not.
    package init(
        _ parameters: [(name: String, value: String)],
        url: Origin? = nil,
        version: String = "",
        file: NodeFile? = nil,
        common: CommonURL? = nil,
        metrics: StoreMetrics = StoreMetrics(),
        now: @escaping @Sendable () -> Milliseconds
    ) throws(StoreError) {
        let (node, links) = (try Self.node(parameters, url, version, file, common, now), SharedLinks())
        func lane(_ number: Int, isOwn: (@Sendable (AccountID) -> Bool)?) -> PostgresLane {
            PostgresLane(number, parameters, node, metrics: metrics, now: now, isOwn: isOwn) { account, answer in
                let lanes = links.value.withLock { $0.lanes }
                lanes[account.shard(of: lanes.count)].claim(.known(account), answer: answer)
            } lost: { account in
                links.value.withLock { $0.report }(.lost(account))
            }
        }
        let lanes = (0..<Self.threadCount).map { number in lane(number) { $0.shard(of: Self.threadCount) == number } }
        links.value.withLock { $0.lanes = lanes }
        (self.node, self.lanes, self.links) = (node, lanes, links)
        let global = lane(Self.threadCount, isOwn: nil)
        self.global = global
        // What the relay does for itself may take long.
        node.begin {
            lanes.reduce(0) { $0 + $1.counts.served }
        } isAlive: {
            lanes.allSatisfy(\.isAlive)
        } report: { event in
            switch event {
            case .otherLeft: links.value.withLock { $0.report }(.nodeLeft)
            case .became(let node):
                links.value.withLock { $0.report }(.becameAnother)
                for lane in lanes + [global] { lane.become(node) }
            case .suspended(let reason): links.value.withLock { $0.report }(.suspended(reason))
            case .drained:
                for lane in lanes { lane.giveBackAll {} }
            case .cutOff(let reason):
                links.value.withLock { $0.report }(.cutOff(reason))
                for lane in lanes { lane.loseAll() }
            case .databaseBegan(let time):
                links.value.withLock { $0.report }(.databaseBegan(Milliseconds(clamping: time)))
                for lane in lanes + [global] { lane.beginAnew() }
            case .primaryChanged(let history):
                let answers = Answers(lanes.count + 1)
                for lane in lanes + [global] {
                    lane.confirm { isConfirmed in
                        if let all = answers.add(isConfirmed) { node.withBeats { $0.looked(in: history, isComplete: all) } }
                    }
                }
            case .hasTooMany(let count): links.value.withLock { $0.report }(.hasTooMany(count))
            }
        }
    }

    private static func node(
        _ parameters: [(name: String, value: String)],
        _ url: Origin?,
        _ version: String,
        _ file: NodeFile?,
        _ common: CommonURL?,
        _ now: @escaping @Sendable () -> Milliseconds
    ) throws(StoreError) -> PostgresNode {
        try PostgresLocation.translated {
            try PostgresSettings.prepare(parameters)
            return try PostgresNode(parameters, url: url, version: version, file: file, common: common, now: now)
        }
    }

    package var nodeID: NodeID { node.id }

    private subscript(account: AccountID?) -> PostgresLane { account.map { lanes[$0.shard(of: Self.threadCount)] } ?? global }

    package func submit(_ work: StoreWork) { self[work.account].submit(work) }

    package func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        self[account].thread.hasRoom(for: channel, of: account, waiter: waiter)
    }

    package func claim(_ account: ClaimedAccount, answer: @escaping @Sendable (AccountClaim) -> Void) {
        self[account.likely].claim(account, answer: answer)
    }

    package func giveBack(_ account: AccountID) { self[account].giveBack(account) }

    package var obstacle: String? { node.obstacle }
    package var hasYoungBeat: Bool { node.hasYoungBeat }

    package var scope: AccountScope {
        let (id, living) = node.living
        // A node that takes no accounts has no part.
        return .node(id, part: living.firstIndex(of: id) ?? -1, of: max(1, living.count))
    }

    package func giveBackAll() async {
        node.leave()
        // Nothing waits much longer for a database that does not answer.
        let all = lanes + [global]
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience) { for lane in all { lane.stopWaiting() } }
        await withDiscardingTaskGroup { group in
            for lane in lanes {
                group.addTask { await withCheckedContinuation { continuation in lane.giveBackAll { continuation.resume() } } }
            }
        }
    }

    package func begin(_ report: @escaping @Sendable (LeaseEvent) -> Void) { links.value.withLock { $0.report = report } }

    /// Waits for submitted work. Later work fails. The leases become free.
    package func close() {
        node.leave()
        for lane in lanes + [global] { lane.stopWaiting() }
        for lane in lanes + [global] { lane.close() }
        node.stop()
    }

    /// Waits until it is known what the database has lost, after it got another primary, or was restored.
    func waitUntilSettled() throws(StoreError) {
        for _ in 0..<450 {
            if node.isSettled { return }
            Thread.sleep(forTimeInterval: 0.1)
        }
        throw .unavailable(
            "it has another primary, and it is not known what is lost: see that its other nodes run, and start this one again"
        )
    }
}

/// How the relay uses PostgreSQL.
enum PostgresSettings {
    private static let session = [
        ("synchronous_commit", "on"), ("statement_timeout", "4s"), ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "5s"), ("client_min_messages", "warning"),
        ("default_transaction_isolation", "read committed"),
    ]

    /// Sets them on a connection.
    static let statement = "SELECT \(session.map { "set_config('\($0.0)', '\($0.1)', false)" }.joined(separator: ", "))"

    private static let fixed = [
        (name: "client_encoding", value: "UTF8"), (name: "target_session_attrs", value: "read-write"),
        (name: "connect_timeout", value: "2"), (name: "tcp_user_timeout", value: "5000"), (name: "keepalives_idle", value: "5"),
        (name: "keepalives_interval", value: "5"),
    ]

    /// The parameters of a connection.
    /// - Parameter node: Whose connection it is, by which the others can end it; `nil` for one that is closed at once.
    static func parameters(_ given: [(name: String, value: String)], of node: NodeID?) -> [(name: String, value: String)] {
        given + fixed + [(name: "application_name", value: node.map(applicationName) ?? "relayd")]
    }

    static func applicationName(of node: NodeID) -> String { "relayd \(node)" }

    /// Checks that a database is suitable, and brings it to this software's version.
    static func prepare(_ given: [(name: String, value: String)]) throws {
        let connection = try PostgresConnection(parameters(given, of: nil))
        guard connection.serverVersion >= 150_000 else {
            throw StoreError.unavailable("its server is too old: PostgreSQL 15 or later is needed")
        }
        try checkSettings(connection)
        try checkPooler(connection, given)
        try PostgresSchema.migrate(connection)
    }

    /// Checks what the server has made of the settings.
    private static func checkSettings(_ connection: PostgresConnection) throws {
        try connection.begin()
        for (name, value) in session {
            let found = try connection.run("SELECT current_setting(?)", [.text(name)]).rows.first?.text(0)
            guard found == value else {
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

    /// Checks that a pooler, if there is one, keeps the server's process of a connection, as it does in session mode.
    private static func checkPooler(_ connection: PostgresConnection, _ given: [(name: String, value: String)]) throws {
        let first = try process(of: connection)
        guard first != connection.serverProcess else { return }
        // In transaction mode, the connection gets the process that was free for the longest time, which shows now, or the one that was
        // free last, which another transaction keeps from it.
        let second = try process(of: connection)
        let other = try PostgresConnection(parameters(given, of: nil))
        try other.begin()
        _ = try other.run(processColumn, [])
        let third = try process(of: connection)
        try other.rollback()
        guard [second, third] == [first, first] else { throw StoreError.ofPooler }
    }

    private static let processColumn = "SELECT pg_backend_pid()"

    private static func process(of connection: PostgresConnection) throws -> Int? {
        try connection.begin()
        let found = try connection.run(processColumn, []).rows.first?.count(0)
        try connection.rollback()
        return found
    }
}
#endif
