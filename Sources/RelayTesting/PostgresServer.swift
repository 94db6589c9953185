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
    package static let shared = Result { try PostgresServer() }

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
    package init(following primary: PostgresServer? = nil, password: String? = nil, on disk: SmallDisk? = nil) throws {
        let parent = disk?.directory ?? FileManager.default.temporaryDirectory
        directory = parent.appending(path: "postgres-\(UUID().uuidString.prefix(8))")
        address = password.map { _ in "127.\((0..<3).map { _ in "\(Int.random(in: 1...254))" }.joined(separator: "."))" }
        // Little of a small disk is for the log of changes.
        settings = disk == nil ? [] : ["min_wal_size=2MB", "max_wal_size=4MB"]
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        if disk != nil { try Self.run(["chmod", "711", parent.path]) }
        try Self.run(["chown", "postgres", directory.path])
        if let primary { try follow(primary) } else { try begin(password, hasSmallDisk: disk != nil) }
    }

    /// Makes its data.
    private func begin(_ password: String?, hasSmallDisk: Bool) throws {
        var options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=\(Self.user)", data]
        if hasSmallDisk { options.append("--wal-segsize=1") }
        if let password {
            let file = directory.appending(path: "password")
            try Data(password.utf8).write(to: file)
            options += ["--auth-host=scram-sha-256", "--pwfile=\(file.path)"]
        }
        try run("initdb", options)
        try start()
    }

    deinit {
        end()
        try? FileManager.default.removeItem(at: directory)
    }

    /// Starts it, also after it has ended by itself.
    package func start() throws {
        end()
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
        try wait("the server to start") { (try? self.run("pg_isready", "-q", "-h", directory.path)) != nil }
    }

    private func end() {
        try? input?.fileHandleForWriting.close()
        process?.waitUntilExit()
        (process, input) = (nil, nil)
    }

    // MARK: Databases

    /// Creates an empty database.
    /// - Returns: The parameters of a connection to it, as in libpq's manual.
    package func makeDatabase() throws -> [(name: String, value: String)] {
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        try makeDatabase(name)
        return parameters(of: name)
    }

    /// The parameters of a connection to a database, as in libpq's manual.
    package func parameters(of database: String) -> [(name: String, value: String)] {
        [("host", directory.path), ("user", Self.user), ("dbname", database)]
    }

    package func makeDatabase(_ name: String) throws { try run("createdb", "-h", directory.path, "-U", Self.user, name) }

    /// Lets databases be on another disk.
    package func makeTablespace(_ name: String, in directory: URL) throws {
        try Self.run(["chown", "postgres", directory.path])
        try query("CREATE TABLESPACE \(name) LOCATION '\(directory.path)'")
    }

    /// The URI of an empty database that is created.
    package func makeURI() throws -> String {
        "postgres:///\(try makeDatabase()[2].value)?host=\(directory.path)&user=\(Self.user)"
    }

    /// Runs a statement.
    /// - Returns: Its rows, with columns separated by `|`.
    @discardableResult
    package func query(_ sql: String, in database: String = "postgres") throws -> String {
        try run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", directory.path, "-U", Self.user, "-d", database, "-c", sql)
    }

    // MARK: Primary and standby

    /// Copies a primary, and follows it from now on. What this server had is gone.
    package func follow(_ primary: PostgresServer) throws {
        end()
        try? FileManager.default.removeItem(atPath: data)
        try run("pg_basebackup", "-h", primary.directory.path, "-U", Self.user, "-D", data, "-R", "-X", "stream", "-c", "fast")
        try start()
    }

    /// Whether commits wait for a standby.
    package func setSynchronous(_ isSynchronous: Bool) throws {
        let file = try FileHandle(forWritingTo: URL(filePath: "\(data)/postgresql.auto.conf"))
        try file.seekToEnd()
        try file.write(contentsOf: Data("synchronous_standby_names = '\(isSynchronous ? "*" : "")'\n".utf8))
        try file.close()
        try run("pg_ctl", "reload", "-s", "-D", data)
        guard isSynchronous else { return }
        try wait("the standby") { try self.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1" }
    }

    /// Makes a standby the primary.
    package func promote() throws {
        try setSynchronous(false)
        try run("pg_ctl", "promote", "-s", "-w", "-D", data)
    }

    /// Ends all its processes at once.
    package func kill() throws {
        try signal(SIGKILL)
        end()
    }

    /// Stops its processes, without their knowledge.
    package func freeze() throws { try signal(SIGSTOP) }
    package func resume() throws { try signal(SIGCONT) }

    private func signal(_ signal: Int32) throws {
        let file = try String(contentsOfFile: "\(data)/postmaster.pid", encoding: .utf8)
        guard let first = file.split(separator: "\n").first, let id = pid_t(first) else { throw Failed(description: "it does not run") }
        let children = try Self.run(["sh", "-c", "cat /proc/\(id)/task/*/children"]).split(separator: " ").compactMap { pid_t($0) }
        for id in [id] + children { _ = Foundation.kill(id, signal) }
    }

    // MARK: Its disk

    /// Stops the server, copies what it has stored, and starts it again.
    package func copyData() throws {
        try run("pg_ctl", "stop", "-s", "-m", "fast", "-D", data)
        end()
        try Self.run(["cp", "-a", data, "\(data).copy"])
        try start()
    }

    /// Stops the server, and starts it with the copy.
    package func putCopyBack() throws {
        try run("pg_ctl", "stop", "-s", "-m", "fast", "-D", data)
        end()
        try FileManager.default.removeItem(atPath: data)
        try Self.run(["cp", "-a", "\(data).copy", data])
        try start()
    }

    // MARK: Programs

    private func wait(_ what: String, until isMet: () throws -> Bool) throws {
        for _ in 0..<1_200 {
            if try isMet() { return }
            usleep(50_000)
        }
        throw Failed(description: "waited for \(what)")
    }

    @discardableResult
    private func run(_ program: String, _ arguments: String...) throws -> String { try run(program, arguments) }

    @discardableResult
    private func run(_ program: String, _ arguments: [String]) throws -> String {
        try Self.run(Self.asOther + ["\(Self.programs ?? "")/\(program)"] + arguments)
    }

    @discardableResult
    static func run(_ command: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.standardError = FileHandle.nullDevice
        let output = try ProcessStart.reading(process)
        let text = String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(description: "\(command) ended with \(process.terminationStatus)") }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
