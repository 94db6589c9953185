// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// PgBouncer before a PostgreSQL server, on a Unix socket. For tests only.
package final class Pooler {
    /// When a connection of a client gives its connection to the server away: when it ends, or after each transaction.
    package enum Mode: String, Sendable {
        case session, transaction
    }

    private static let program = "/usr/sbin/pgbouncer"
    package static let isPossible = PostgresServer.isPossible && FileManager.default.isExecutableFile(atPath: program)

    private let directory = FileManager.default.temporaryDirectory.appending(path: "pooler-\(UUID().uuidString.prefix(8))")
    private let process = Process()

    /// - Parameter settings: Further lines of its file.
    package init(_ mode: Mode, to server: PostgresServer, settings: String = "") async throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let file = directory.appending(path: "pgbouncer.ini")
        try Data(
            """
            [databases]
            * = host=\(server.directory.path) user=\(PostgresServer.user)
            [pgbouncer]
            listen_addr =
            listen_port = 5432
            unix_socket_dir = \(directory.path)
            auth_type = any
            pool_mode = \(mode)
            \(settings)
            """.utf8
        ).write(to: file)
        try await ProcessRun.output(of: ["chown", "-R", "postgres", directory.path])
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = PostgresServer.asOther + [Self.program, "--quiet", file.path]
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        let socket = directory.appending(path: ".s.PGSQL.5432").path
        while !FileManager.default.fileExists(atPath: socket) {
            guard process.isRunning else { throw PostgresServer.Failed(description: "the pooler has ended") }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    deinit {
        // Other signals may be blocked.
        _ = Foundation.kill(process.processIdentifier, SIGKILL)
        ProcessRun.after(endOf: [process]) { [directory] in try? FileManager.default.removeItem(at: directory) }
    }

    /// A URI of a database, through the pooler.
    package func uri(of database: String) -> String { "postgres:///\(database)?host=\(directory.path)&user=\(PostgresServer.user)" }
}
