// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// A PostgreSQL server on a Unix socket in a directory of its own. It ends with this process. For tests only.
package final class PostgresServer: @unchecked Sendable {
    package struct Failed: Error, CustomStringConvertible {
        package var description: String
    }

    /// Debian keeps the programs of each version in a folder.
    package static let programs: String? = {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql")) ?? []
        return versions.sorted { $0.compare($1, options: .numeric) == .orderedAscending }.last.map { "/usr/lib/postgresql/\($0)/bin" }
    }()

    /// Whether the programs are installed, and this process may start them: the server does not run as root.
    package static var isPossible: Bool { programs != nil && geteuid() == 0 }

    /// A server for all tests of this process.
    package static var shared: PostgresServer { get async throws { try await first.value } }
    private static let first = Task { try await PostgresServer() }

    /// Runs a command as the user of the servers.
    static let asOther = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    package static let user = "relay"

    /// With its socket and its data.
    package let directory: URL
    /// Where it listens by TCP, at port 5432; `nil` if it does not. Connections there need the password.
    package let address: String?
    private let settings: [String]
    private var process: Process?
    private var input: Pipe?

    private var data: String { directory.appending(path: "data").path }

    /// - Parameters:
    ///   - primary: The server that it follows; `nil` if it is a primary.
    ///   - password: Of its user for connections by TCP; without it there are none.
    ///   - disk: Where its data is; `nil` for the folder for temporary files.
    package init(following primary: PostgresServer? = nil, password: String? = nil, on disk: SmallDisk? = nil) async throws {
        let parent = disk?.directory ?? FileManager.default.temporaryDirectory
        directory = parent.appending(path: "postgres-\(UUID().uuidString.prefix(8))")
        address = password.map { _ in "127.\((0..<3).map { _ in "\(Int.random(in: 1...254))" }.joined(separator: "."))" }
        // Little of a small disk is for the log of changes.
        settings = disk == nil ? [] : ["min_wal_size=2MB", "max_wal_size=4MB"]
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        if disk != nil { try await ProcessRun.output(of: ["chmod", "711", parent.path]) }
        try await ProcessRun.output(of: ["chown", "postgres", directory.path])
        if let primary { try await follow(primary) } else { try await begin(password, hasSmallDisk: disk != nil) }
    }

    /// Makes its data.
    private func begin(_ password: String?, hasSmallDisk: Bool) async throws {
        var options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=\(Self.user)", data]
        if hasSmallDisk { options.append("--wal-segsize=1") }
        if let password {
            let file = directory.appending(path: "password")
            try Data(password.utf8).write(to: file)
            options += ["--auth-host=scram-sha-256", "--pwfile=\(file.path)"]
        }
        try await run("initdb", options)
        try await start()
    }

    deinit {
        try? input?.fileHandleForWriting.close()
        if let process { ProcessRun.after(endOf: [process]) { [directory] in try? FileManager.default.removeItem(at: directory) } }
    }

    /// Starts it, also after it has ended by itself.
    package func start() async throws {
        try await end()
        guard let programs = Self.programs else { throw Failed(description: "PostgreSQL is not installed") }
        let (process, input) = (Process(), ProcessStart.alone { Pipe() })
        process.executableURL = URL(filePath: "/usr/bin/env")
        // The server's keeper waits for the end of its input, which is the end of this process. Another shell would wait for SIGCHLD, which may be
        // blocked here.
        process.arguments =
            ["bash", "-c", #""$@" & read -r _; kill -QUIT $!; wait"#, "bash"] + Self.asOther
            + ["\(programs)/postgres", "-D", data, "-k", directory.path]
            + (["listen_addresses=\(address ?? "")", "max_connections=500"] + settings).flatMap { ["-c", $0] }
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        (self.process, self.input) = (process, input)
        try await wait("the server to start") { (try? await self.run("pg_isready", "-q", "-h", directory.path)) != nil }
    }

    private func end() async throws {
        try? input?.fileHandleForWriting.close()
        if let process { try await ProcessRun.end(of: process) }
        (process, input) = (nil, nil)
    }

    // MARK: Databases

    /// Creates an empty database.
    /// - Returns: The parameters of a connection to it, as in libpq's manual.
    package func makeDatabase() async throws -> [(name: String, value: String)] {
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        try await makeDatabase(name)
        return parameters(of: name)
    }

    /// The parameters of a connection to a database, as in libpq's manual.
    package func parameters(of database: String) -> [(name: String, value: String)] {
        [("host", directory.path), ("user", Self.user), ("dbname", database)]
    }

    package func makeDatabase(_ name: String) async throws { try await run("createdb", "-h", directory.path, "-U", Self.user, name) }

    /// Lets databases be on another disk.
    package func makeTablespace(_ name: String, in directory: URL) async throws {
        try await ProcessRun.output(of: ["chown", "postgres", directory.path])
        try await query("CREATE TABLESPACE \(name) LOCATION '\(directory.path)'")
    }

    /// The URI of an empty database that is created.
    package func makeURI() async throws -> String {
        "postgres:///\(try await makeDatabase()[2].value)?host=\(directory.path)&user=\(Self.user)"
    }

    /// Runs a statement, for a minute at most.
    /// - Returns: Its rows, with columns separated by `|`.
    @discardableResult
    package func query(_ sql: String, in database: String = "postgres") async throws -> String {
        try await run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", directory.path, "-U", Self.user, "-d", database, "-c", sql)
    }

    /// Runs the statements of a dump.
    package func load(_ dump: String, into uri: String) async throws {
        let file = directory.appending(path: "dump-\(UUID().uuidString).sql")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(dump.utf8).write(to: file)
        try await run("psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", uri, "-f", file.path)
    }

    /// The tables of a database, as statements. Newer programs add random words of their own.
    package func layout(of uri: String) async throws -> [String] {
        try await run("pg_dump", "--schema-only", "--no-owner", "--no-privileges", uri).split(separator: "\n").map(String.init)
            .filter { !$0.hasPrefix("--") && !$0.hasPrefix("\\") }
    }

    // MARK: Primary and standby

    /// Copies a primary, and follows it from now on. What this server had is gone.
    package func follow(_ primary: PostgresServer) async throws {
        try await end()
        try? FileManager.default.removeItem(atPath: data)
        try await run("pg_basebackup", "-h", primary.directory.path, "-U", Self.user, "-D", data, "-R", "-X", "stream", "-c", "fast")
        try await start()
    }

    /// Whether commits wait for a standby.
    package func setSynchronous(_ isSynchronous: Bool) async throws {
        let file = try FileHandle(forWritingTo: URL(filePath: "\(data)/postgresql.auto.conf"))
        try file.seekToEnd()
        try file.write(contentsOf: Data("synchronous_standby_names = '\(isSynchronous ? "*" : "")'\n".utf8))
        try file.close()
        try await run("pg_ctl", "reload", "-s", "-D", data)
        guard isSynchronous else { return }
        try await wait("the standby") { try await self.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1" }
    }

    /// Makes a standby the primary.
    package func promote() async throws {
        try await setSynchronous(false)
        try await run("pg_ctl", "promote", "-s", "-w", "-D", data)
    }

    /// Ends all its processes at once.
    package func kill() async throws {
        try signal(SIGKILL)
        try await end()
    }

    /// Stops its processes, without their knowledge.
    package func freeze() throws { try signal(SIGSTOP) }
    package func resume() throws { try signal(SIGCONT) }

    private func signal(_ signal: Int32) throws {
        let file = try String(contentsOfFile: "\(data)/postmaster.pid", encoding: .utf8)
        guard let first = file.split(separator: "\n").first, let id = pid_t(first) else { throw Failed(description: "it does not run") }
        let children = try Self.children(of: id)
        for id in [id] + children { _ = Foundation.kill(id, signal) }
    }

    private static func children(of id: pid_t) throws -> [pid_t] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(id)/task").flatMap { thread in
            let text = try String(contentsOfFile: "/proc/\(id)/task/\(thread)/children", encoding: .utf8)
            return text.split(separator: " ").compactMap { pid_t($0) }
        }
    }

    // MARK: Its disk

    /// Stops the server, copies what it has stored, and starts it again.
    package func copyData() async throws {
        try await run("pg_ctl", "stop", "-s", "-m", "fast", "-D", data)
        try await end()
        try await ProcessRun.output(of: ["cp", "-a", data, "\(data).copy"])
        try await start()
    }

    /// Stops the server, and starts it with the copy.
    package func putCopyBack() async throws {
        try await run("pg_ctl", "stop", "-s", "-m", "fast", "-D", data)
        try await end()
        try FileManager.default.removeItem(atPath: data)
        try await ProcessRun.output(of: ["cp", "-a", "\(data).copy", data])
        try await start()
    }

    // MARK: Programs

    private func wait(_ what: String, until isMet: () async throws -> Bool) async throws {
        for _ in 0..<1_200 {
            if try await isMet() { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw Failed(description: "waited for \(what)")
    }

    @discardableResult
    private func run(_ program: String, _ arguments: String...) async throws -> String { try await run(program, arguments) }

    @discardableResult
    private func run(_ program: String, _ arguments: [String]) async throws -> String {
        try await ProcessRun.output(of: Self.asOther + Self.limits(of: program) + ["\(Self.programs ?? "")/\(program)"] + arguments)
    }

    /// A server may have been stopped without its knowledge.
    private static func limits(of program: String) -> [String] {
        ["env", "PGCONNECT_TIMEOUT=10"] + (program == "psql" ? ["PGOPTIONS=-c statement_timeout=60s"] : [])
    }
}
