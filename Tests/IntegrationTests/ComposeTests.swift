// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

/// The services of deploy/compose.yaml, without containers: each runs its command at an address of its own.
@Suite(
    .timeLimit(.minutes(5)),
    .enabled(
        if: PostgresServer.isPossible && PythonScript.has("caddy") && PythonScript.isAvailable,
        "needs Debian's packages postgresql and caddy, and root; scripts/test sets DEVICE_RELAY_PYTHON"
    )
)
struct ComposeTests {
    @Test func relayOfTheComposeFileWorksAndSurvivesTheLossOfANodeAndOfThePrimary() async throws {
        let compose = try await ComposedServices()
        let (first, second) = (try await compose.run("postgres-a"), try await compose.run("postgres-b"))
        // Compose starts a node again that ends because its database is not there.
        while (try? await compose.execute(["pg_isready", "--quiet"], in: "postgres-a")) == nil {
            try await Task.sleep(for: .milliseconds(100))
        }
        var nodes = [try await compose.run("node1")]
        try await compose.isReady("node1")
        // As the page says: the first node has made the keys.
        for other in ["node2", "node3"] {
            try compose.copyKeys(from: "node1", to: other)
            nodes.append(try await compose.run(other))
            try await compose.isReady(other)
        }
        let caddy = try await compose.run("caddy")
        try await compose.isReady("relay.example")

        try await compose.execute(["relayd", "account", "add", "Anna"], in: "node2")
        let (pc, log) = (try await device("PC", compose), Log<String>())
        try await pc.publish(player(log: log), for: Self.account)
        let phone = try await device("Phone", compose)
        let target = RemoteSystemConnectionRequest(try await system("PC", seenBy: phone))
        func launch(_ number: Int) async throws {
            _ = try await RemoteLauncher(phone).submit(try url("https://films.example/\(number)"), on: target).outcome()
        }
        try await launch(1)

        // The node of the account ends.
        let owner = try await compose.execute(["relayd", "node", "list", "--json"], in: "node3")
        let listed = try JSONDecoder().decode([Listed].self, from: Data(owner.utf8))
        let serving = try #require(listed.firstIndex { $0.accounts > 0 })
        nodes[serving].kill()
        try await launch(2)

        // The primary ends, and the standby becomes the primary, by the commands of the page.
        first.kill()
        for command in try Self.failover() { try await compose.execute(command, in: "postgres-b") }
        try await compose.isReady("relay.example")
        try await launch(3)
        #expect(await log.entries == (1...3).map { "https://films.example/\($0)" })
        // No secret is in a list of processes, or in what a service has written.
        for process in nodes + [first, second, caddy] { #expect(!process.seen.contains("canary")) }
        #expect(!compose.written.contains("canary"))
        await phone.shutdown()
        await pc.shutdown()
    }

    private struct Listed: Decodable { var accounts: Int }

    private func system(_ name: String, seenBy platform: ConnectedDevicesPlatform) async throws -> RemoteSystem {
        for await systems in platform.remoteSystems().snapshots {
            if let system = systems.first(where: { $0.displayName == name }) { return system }
        }
        throw CancellationError()
    }

    private static let account = ConnectedDevicesAccount(id: "me")

    /// The commands of docs/scaling.md that run in the new primary.
    private static func failover() throws -> [[String]] {
        let text = try String(contentsOf: ComposedServices.root.appending(path: "docs/scaling.md"), encoding: .utf8)
        let commands = text.matches(of: /docker compose exec -u postgres postgres-b (?<command>[^#\n]+)/).map(\.command)
        try #require(commands.count == 2)
        return commands.map { ["sh", "-c", String($0)] }
    }

    private func device(_ name: String, _ compose: ComposedServices) async throws -> ConnectedDevicesPlatform {
        let link = try JoinLink(parsing: try await compose.execute(["relayd", "invite", "Anna"], in: "node1"), plainHTTP: .allowed)
        #expect(link.origin == compose.origins["relay.example"])
        let directory = compose.directory.appending(path: name)
        var settings = ConnectedDevicesPlatformSettings(
            relay: try url(link.origin),
            relayID: link.relay,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        let platform = ConnectedDevicesPlatform(
            settings: settings,
            accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test")
        )
        try await platform.start()
        try await platform.accounts.add(Self.account, joining: link)
        return platform
    }
}

/// What deploy/compose.yaml says, with other addresses, ports and folders.
private final class ComposedServices {
    static let root = URL(filePath: #filePath).appending(path: "../../..").standardizedFileURL

    private struct Service: Decodable {
        var entrypoint: [String]?
        var command: [String]
        var environment: [String: String]?
    }

    private struct File: Decodable { var services: [String: Service] }

    let directory = FileManager.default.temporaryDirectory.appending(path: "compose-\(UUID().uuidString.prefix(8))")
    /// Where Caddy serves each of its sites.
    let origins: [String: String]
    private let services: [String: Service]
    /// Where each service listens, by the name that the others know it by.
    private let addresses: [String: String]
    private var started: [Process] = []

    init() async throws {
        let file = Self.root.appending(path: "deploy/compose.yaml").path
        let script = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)"
        let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"] ?? "python3"
        let json = try await ProcessRun.output(of: [python, "-c", script, file])
        services = try JSONDecoder().decode(File.self, from: Data(json.utf8)).services
        let network = "127.\(Int.random(in: 1...254)).\(Int.random(in: 1...254))"
        addresses = Dictionary(uniqueKeysWithValues: services.keys.sorted().enumerated().map { ($1, "\(network).\($0 + 1)") })
        let sites = ["relay.example"] + (1...3).map { "node\($0).relay.example" }
        origins = Dictionary(uniqueKeysWithValues: try sites.map { ($0, "http://127.0.0.1:\(try FreePort.take())") })

        let files = FileManager.default
        // The servers run as another user.
        try files.createDirectory(at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o711])
        for name in ["secrets"] + services.keys {
            try files.createDirectory(
                at: directory.appending(path: name),
                withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700]
            )
        }
        for name in services.keys where name.hasPrefix("postgres") {
            let socket = directory.appending(path: "\(name)-socket").path
            try files.createDirectory(atPath: socket, withIntermediateDirectories: false)
            try files.setAttributes([.posixPermissions: 0o777], ofItemAtPath: socket)
        }
        for user in ["relayd", "replicator"] {
            let path = directory.appending(path: "secrets/\(user)-pgpass").path
            try Data("*:*:*:\(user):canary-'\(UUID())\n".utf8).write(to: URL(filePath: path))
            try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        }
        try files.copyItem(at: Self.root.appending(path: "deploy/postgres.sh"), to: directory.appending(path: "postgres.sh"))
        let caddyfile = try String(contentsOf: Self.root.appending(path: "deploy/Caddyfile"), encoding: .utf8)
        try Data(replaced(caddyfile, for: "caddy").utf8).write(to: directory.appending(path: "Caddyfile"))
    }

    deinit { ProcessRun.after(endOf: started) { [directory] in try? FileManager.default.removeItem(at: directory) } }

    private func replaced(_ text: String, for service: String) -> String {
        let own = addresses[service] ?? ""
        var text = text
        // The longest names first, because some contain others.
        for (site, origin) in origins.sorted(by: { $0.key.utf8.count > $1.key.utf8.count }) {
            text = text.replacing("https://\(site)", with: origin).replacing("\(site) {", with: "\(origin) {")
        }
        for (name, address) in addresses where name != "caddy" { text = text.replacing(name, with: address) }
        for (old, new) in [
            ("0.0.0.0:", "\(own):"), ("listen_addresses=*", "listen_addresses=\(own)"), ("172.30.0.0/24", "127.0.0.0/8"),
            ("/run/secrets", "\(directory.path)/secrets"), ("/var/lib/postgresql/data", "\(directory.path)/\(service)"),
            ("/var/run/postgresql", "\(directory.path)/\(service)-socket"), ("/var/lib/relayd", "\(directory.path)/\(service)"),
            ("/postgres.sh", "\(directory.path)/postgres.sh"), ("/etc/caddy/Caddyfile", "\(directory.path)/Caddyfile"),
        ] { text = text.replacing(old, with: new) }
        return text
    }

    private func environment(of service: String) -> [String: String] {
        let programs = [RelaydProcess.executable.deletingLastPathComponent().path, PostgresServer.programs ?? "", "/usr/bin", "/bin"]
        let given = (services[service]?.environment ?? [:]).mapValues { replaced($0, for: service) }
        // In the container, programs find the socket at its usual place.
        return ["PATH": programs.joined(separator: ":"), "PGHOST": "\(directory.path)/\(service)-socket", "HOME": directory.path]
            .merging(given) { $1 }
    }

    /// Starts a service.
    func run(_ name: String) async throws -> ComposedProcess {
        let service = try #require(services[name])
        let command = ((service.entrypoint ?? []) + service.command).map { replaced($0, for: name) }
        let process = try await ComposedProcess(command, environment: environment(of: name), log: directory.appending(path: "\(name).log"))
        started.append(process.process)
        return process
    }

    /// What all services have written.
    var written: String {
        services.keys.map { (try? String(contentsOf: directory.appending(path: "\($0).log"), encoding: .utf8)) ?? "" }.joined()
    }

    /// Runs a command in the container of a service; in that of a server as its user.
    @discardableResult
    func execute(_ command: [String], in service: String) async throws -> String {
        let user = service.hasPrefix("postgres") ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []
        return try await ProcessRun.output(of: user + command, environment: environment(of: service))
    }

    func copyKeys(from node: String, to other: String) throws {
        for key in ["relay.key", "issuer.key"] {
            try FileManager.default.copyItem(
                at: directory.appending(path: "\(node)/\(key)"),
                to: directory.appending(path: "\(other)/\(key)")
            )
        }
    }

    /// Waits until a node, or a site of Caddy, says that it is ready.
    func isReady(_ name: String) async throws {
        let address = try RelayAddress(try url(origins[name] ?? "http://\(addresses[name] ?? ""):8080"))
        while true {
            let answer = try? await HTTPRequestClient().send(HTTPRequest(.GET, "/readyz"), to: address, trust: RelayTrust(relay: nil))
            if answer?.status == 200 { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }
}

/// A service that runs. It ends with this object, and with this process.
private final class ComposedProcess {
    let process = Process()
    private let input = ProcessStart.alone { Pipe() }
    private let id: pid_t

    init(_ command: [String], environment: [String: String], log: URL) async throws {
        try Data().write(to: log)
        process.executableURL = URL(filePath: "/usr/bin/env")
        let keeper = #"log=$1; shift; "$@" >"$log" 2>&1 & echo $!; read -r _; kill -s "$0" $!; wait"#
        // Servers of PostgreSQL tidy up. The others may have signals blocked.
        process.arguments = ["bash", "-c", keeper, environment["PGDATA"] == nil ? "KILL" : "INT", log.path] + command
        process.environment = environment
        process.standardInput = input
        let output = try ProcessStart.reading(process)
        let line = try await RelaydProcess.lines(of: output, 1).first ?? ""
        id = pid_t(line) ?? 0
    }

    deinit { try? input.fileHandleForWriting.close() }

    /// What a list of processes shows of it.
    var seen: String { (try? String(contentsOfFile: "/proc/\(id)/cmdline", encoding: .utf8)) ?? "" }

    func kill() { if id > 0 { _ = Foundation.kill(id, SIGKILL) } }
}
