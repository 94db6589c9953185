// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayTesting
import Synchronization

/// The relay: one process on SQLite, or several nodes on a PostgreSQL primary with a synchronous standby.
final class Relays {
    struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    let nodes: [RelaydProcess]
    /// `nil` with SQLite.
    let database: DatabasePair?
    /// A proxy for each node and server, which can lose what goes through it.
    private let proxies: [[CuttingProxy]]

    /// - Parameters:
    ///   - program: Another build of the service, with which the nodes start.
    ///   - arguments: Flags for each node.
    ///   - log: Opens the log of a node.
    init(_ count: Int, program: URL?, arguments: [String], log: (String) throws -> FileHandle) async throws {
        guard count > 1 else {
            (database, proxies) = (nil, [])
            nodes = [try await RelaydProcess(arguments: arguments)]
            nodes[0].standardError = try log("relayd.log")
            nodes[0].program = program
            return
        }
        guard PostgresServer.isPossible else { throw Failed(description: "several nodes need PostgreSQL, and root") }
        let database = try await DatabasePair()
        self.database = database
        let places = try RelayNodes(count)
        var (nodes, proxies): ([RelaydProcess], [[CuttingProxy]]) = ([], [])
        for (number, port) in places.ports.enumerated() {
            var own: [CuttingProxy] = []
            for server in database.servers { own.append(try await CuttingProxy(to: server.parameters(of: DatabasePair.name))) }
            let hosts = own.map(\.directory.path).joined(separator: ",")
            let store = "postgres:///\(DatabasePair.name)?host=\(hosts)&user=\(PostgresServer.user)"
            let node = try await RelaydProcess(port: port, arguments: arguments + places.arguments(number, store: store))
            node.standardError = try log("relayd-\(number).log")
            node.program = program
            nodes.append(node)
            proxies.append(own)
        }
        (self.nodes, self.proxies) = (nodes, proxies)
    }

    /// Starts all nodes, with one account, in a database that is ten minutes old: a younger one does not know what became of short commands.
    func start(account: String) async throws {
        _ = try await nodes[0].start()
        _ = try await nodes[0].run("account", "add", account)
        _ = try await nodes[0].stop()
        let statement = "UPDATE meta SET began = began - 600000"
        if let database {
            try await database.query(statement)
        } else {
            try await DatabaseQueue(path: sqlite.path).write { try $0.execute(sql: statement) }
        }
        _ = try await nodes[0].start()
        for node in nodes.dropFirst() {
            try RelayNodes.copyKeys(from: nodes[0], to: node.directory)
            _ = try await node.start()
        }
    }

    func kill() async throws { for node in nodes { try await node.kill() } }

    /// The database of a relay with SQLite.
    var sqlite: URL { nodes[0].directory.appending(path: "relay.sqlite") }

    /// The number of commands in the database; `nil` if it cannot be read now.
    func commands() async -> Int? {
        let statement = "SELECT count(*) FROM commands"
        if let database { return (try? await database.query(statement)).flatMap { Int($0) } }
        var configuration = Configuration()
        configuration.readonly = true
        return try? await DatabaseQueue(path: sqlite.path, configuration: configuration).read { try Int.fetchOne($0, sql: statement) }
    }

    /// Loses what goes next between a node and the database.
    func cut(_ node: Int, answer: Bool) {
        for proxy in proxies[node] { if answer { proxy.loseNextAnswer() } else { proxy.loseNextRequest() } }
    }
}

/// A PostgreSQL primary with a synchronous standby, and a database.
final class DatabasePair: Sendable {
    static let name = "relay"

    /// The primary, then its standby.
    private let current: Mutex<[PostgresServer]>

    init() async throws {
        let primary = try await PostgresServer()
        try await primary.makeDatabase(Self.name)
        let standby = try await PostgresServer(following: primary)
        try await primary.setSynchronous(true)
        current = Mutex([primary, standby])
    }

    var servers: [PostgresServer] { current.withLock { $0 } }

    @discardableResult
    func query(_ sql: String) async throws -> String { try await servers[0].query(sql, in: Self.name) }

    /// Kills the primary, as a failover manager does before it makes the standby the primary.
    /// - Returns: When the standby has become the primary.
    func promote() async throws -> ContinuousClock.Instant {
        let before = servers
        try await before[0].kill()
        try await before[1].promote()
        current.withLock { $0 = before.reversed() }
        return .now
    }

    /// Makes the former primary the standby.
    func restoreStandby() async throws {
        let now = servers
        try await now[1].follow(now[0])
        try await now[0].setSynchronous(true)
    }
}
