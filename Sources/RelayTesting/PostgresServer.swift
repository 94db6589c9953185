// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// A PostgreSQL server on a Unix socket in a directory of its own. It ends with this process. For tests only.
package final class PostgresServer: @unchecked Sendable {
    package struct Failed: Error {
        package var message: String
    }

    /// Debian keeps the programs of each version in a folder.
    private static let programs: String? = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        return versions.sorted { $0.compare($1, options: .numeric) == .orderedAscending }.last.map { "/usr/lib/postgresql/\($0)/bin" }
    }()

    /// Whether the programs are installed, and this process may start them: the server does not run as root.
    package static var isPossible: Bool { programs != nil && geteuid() == 0 }

    /// A server for all tests of this process.
    package static let shared = Result { try PostgresServer() }

    private static let asOther = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

    package let directory: URL
    private let process = Process()
    private let input = Pipe()

    package init() throws {
        guard let programs = Self.programs else { throw Failed(message: "PostgreSQL is not installed") }
        directory = FileManager.default.temporaryDirectory.appending(path: "postgres-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        try Self.run(["chown", "postgres", directory.path])
        let data = directory.appending(path: "data").path
        try Self.run(
            Self.asOther + ["\(programs)/initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=relay", data]
        )
        process.executableURL = URL(filePath: "/usr/bin/env")
        // The server's keeper waits for the end of its input, which is the end of this process.
        process.arguments =
            ["sh", "-c", #""$@" & read -r _; kill -QUIT $!; wait"#, "sh"] + Self.asOther
            + ["\(programs)/postgres", "-D", data, "-k", directory.path, "-c", "listen_addresses=", "-c", "max_connections=500"]
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        for _ in 0..<600 {
            if (try? Self.run(["\(programs)/pg_isready", "-q", "-h", directory.path])) != nil { return }
            usleep(50_000)
        }
        throw Failed(message: "PostgreSQL does not start")
    }

    deinit {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: directory)
    }

    /// Creates an empty database.
    /// - Returns: The parameters of a connection to it, as in libpq's manual.
    package func makeDatabase() throws -> [(name: String, value: String)] {
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        try Self.run(["\(Self.programs ?? "")/createdb", "-h", directory.path, "-U", "relay", name])
        return [("host", directory.path), ("user", "relay"), ("dbname", name)]
    }

    private static func run(_ command: [String]) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(message: "\(command) ended with \(process.terminationStatus)") }
    }
}
