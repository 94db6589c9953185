// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing

/// The services of deploy/compose.yaml, by the commands of docs/scaling.md, without containers: each runs its command at an address of its
/// own.
@Suite(
    .timeLimit(.minutes(5)),
    .enabled(
        if: PostgresServer.isPossible && PythonScript.isAvailable
            && ["caddy", "objcopy", "openssl"].allSatisfy { PythonScript.has($0) },
        "needs Debian's packages postgresql, caddy, binutils and openssl, and root; scripts/test sets DEVICE_RELAY_PYTHON"
    )
)
struct ComposeTests {
    @Test func relayOfTheComposeFileWorksAndSurvivesTheLossOfANodeAndOfThePrimary() async throws {
        let compose = try await ComposedServices()
        for line in try Project.block(2, of: "docs/scaling.md").split(separator: "\n") { try await compose.follow(String(line)) }
        for site in ["node1", "node2", "node3", "relay.example"] { try await compose.isReady(site) }
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
        let serving = try #require(listed.first { $0.accounts > 0 }?.url)
        compose.kill(try #require((1...3).map { "node\($0)" }.first { compose.origins["\($0).relay.example"] == serving }))
        try await launch(2)

        // The primary ends, and the standby becomes the primary.
        for line in try Project.block(3, of: "docs/scaling.md").split(separator: "\n") { try await compose.follow(String(line)) }
        try await compose.isReady("relay.example")
        try await launch(3)
        #expect(await log.entries == (1...3).map { "https://films.example/\($0)" })
        // No secret is in a list of processes, or in what a service has written.
        #expect(compose.seen.count == 6)
        for process in compose.seen { #expect(!process.contains("canary")) }
        #expect(!compose.written.contains("canary"))
        await phone.shutdown()
        await pc.shutdown()
    }

    private struct Listed: Decodable {
        var accounts: Int
        var url: String?
    }

    private func system(_ name: String, seenBy platform: ConnectedDevicesPlatform) async throws -> RemoteSystem {
        for await systems in platform.remoteSystems().snapshots {
            if let system = systems.first(where: { $0.displayName == name }) { return system }
        }
        throw CancellationError()
    }

    private static let account = ConnectedDevicesAccount(id: "me")

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
    private struct Service: Decodable {
        struct Build: Decodable {
            var dockerfile: String

            enum CodingKeys: String, CodingKey { case dockerfile = "dockerfile_inline" }
        }

        var build: Build?
        var entrypoint: [String]?
        var command: [String]
        var environment: [String: String]?
    }

    private struct File: Decodable { var services: [String: Service] }

    struct NotKnown: Error { var line: String }

    private let place = FileManager.default.temporaryDirectory.appending(path: "compose-\(UUID().uuidString.prefix(8))")
    /// Stands for the folder `deploy` of the project.
    let directory: URL
    /// Where Caddy serves each of its sites.
    let origins: [String: String]
    private let services: [String: Service]
    /// Where each service listens, by the name that the others know it by.
    private let addresses: [String: String]
    private var running: [String: ComposedProcess] = [:]
    private var started: [Process] = []
    /// What services have written that were started again.
    private var earlier = ""
    /// Where the commands of the page run.
    private var current: URL
    /// Where the image of the nodes has its programs.
    private var imagePath = ""

    init() async throws {
        directory = place.appending(path: "deploy")
        current = place
        let file = Project.root.appending(path: "deploy/compose.yaml").path
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
        for folder in [place, directory] {
            try files.createDirectory(at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o711])
        }
        // The volumes. The page makes the other folders.
        for name in services.keys where services[name]?.build == nil {
            let folder = directory.appending(path: name)
            try files.createDirectory(at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        }
        for name in services.keys where name.hasPrefix("postgres") {
            let socket = directory.appending(path: "\(name)-socket").path
            try files.createDirectory(atPath: socket, withIntermediateDirectories: false)
            try files.setAttributes([.posixPermissions: 0o777], ofItemAtPath: socket)
        }
        try files.copyItem(at: Project.root.appending(path: "deploy/postgres.sh"), to: directory.appending(path: "postgres.sh"))
        try Data(replaced(try Project.text("deploy/Caddyfile"), for: "caddy").utf8).write(to: directory.appending(path: "Caddyfile"))
    }

    deinit { ProcessRun.after(endOf: started) { [place] in try? FileManager.default.removeItem(at: place) } }

    // MARK: The commands of the page

    /// Does what a line of the page says. What is for Docker is done here, and all else by a shell.
    func follow(_ line: String) async throws {
        if let awaited = line.firstMatch(of: /# when `docker compose logs (\w+)` says ready/) {
            try await isReady(String(awaited.1))
            while !(try log(String(awaited.1)).contains(" ready at ")) { try await Task.sleep(for: .milliseconds(100)) }
        }
        let command = line.replacing(/\s+#.*/, with: "")
        if let words = command.wholeMatch(of: /docker compose (.+)/)?.1.split(separator: " ").map(String.init) {
            switch (words[0], words.dropFirst().first) {
            case ("build", nil): try await build()
            case ("up", "-d"): for name in words.count > 2 ? Array(words[2...]) : services.keys.sorted() { try await start(name) }
            case ("rm", "--stop"):
                try #require(words.count == 4 && words[2] == "--force" && running[words[3]] != nil)
                kill(words[3])
            case ("exec", _):
                let exec = try #require(command.wholeMatch(of: /docker compose exec (?:-u \w+ )?(?<service>[\w-]+) (?<command>.+)/))
                try await execute(["sh", "-c", String(exec.command)], in: String(exec.service))
            default: throw NotKnown(line: line)
            }
            return
        }
        // The build of these tests stands for a release build, and is packed quickly.
        let gzip = "gzip() { command gzip -1; }; export -f gzip"
        let install = "\(Project.root.path)/scripts/install --programs \(Project.products.path)"
        let script = "set -e\n\(gzip)\n\(command.replacing("scripts/install", with: install)) >&2\npwd"
        let place = try await ProcessRun.output(of: ["env", "-C", current.path, "bash", "-c", script])
        current = URL(filePath: place)
        if command.contains("-pgpass") { try mark() }
    }

    /// A password may have a quote. It is found wherever it is written.
    private func mark() throws {
        for user in ["relayd", "replicator"] {
            let file = directory.appending(path: "secrets/\(user)-pgpass")
            let text = try String(contentsOf: file, encoding: .utf8)
            try #require(text.wholeMatch(of: /\*:\*:\*:(?<user>[a-z]+):[0-9a-f]{48}\n/)?.user == Substring(user))
            let mode = try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            try Data(text.replacing("\n", with: "canary-'\n").utf8).write(to: file)
        }
    }

    /// Does what the lines of the image's file say. This machine stands for the system that it begins with, and has its packages.
    private func build() async throws {
        let file = try #require(services["node1"]?.build).dockerfile
        let image = place.appending(path: "image").path
        for line in file.split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            switch words[0] {
            case "FROM", "RUN": break
            case "ADD":
                try FileManager.default.createDirectory(atPath: image + words[2], withIntermediateDirectories: true)
                try await ProcessRun.output(of: ["tar", "-xzf", directory.appending(path: words[1]).path, "-C", image + words[2]])
            case "ENV":
                try #require(words[1].hasPrefix("PATH=/opt/"))
                imagePath = image + words[1].dropFirst("PATH=".count)
            default: throw NotKnown(line: String(line))
            }
        }
        #expect(!imagePath.isEmpty)
    }

    // MARK: Services

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
        let programs = services[service]?.build == nil ? [PostgresServer.programs ?? "", "/usr/bin", "/bin"] : [imagePath]
        let given = (services[service]?.environment ?? [:]).mapValues { replaced($0, for: service) }
        // In the container, programs find the socket at its usual place.
        return ["PATH": programs.joined(separator: ":"), "PGHOST": "\(directory.path)/\(service)-socket", "HOME": directory.path]
            .merging(given) { $1 }
    }

    /// Starts a service that does not run.
    private func start(_ name: String) async throws {
        guard !(running[name]?.isAlive ?? false) else { return }
        let service = try #require(services[name])
        let command = ((service.entrypoint ?? []) + service.command).map { replaced($0, for: name) }
        earlier += (try? log(name)) ?? ""
        let process = try await ComposedProcess(command, environment: environment(of: name), log: directory.appending(path: "\(name).log"))
        started.append(process.process)
        running[name] = process
    }

    /// Ends a service without its knowledge.
    func kill(_ name: String) { running[name]?.kill() }

    /// What a list of processes shows of all services.
    var seen: [String] { running.values.map(\.seen) }

    private func log(_ name: String) throws -> String {
        try String(contentsOf: directory.appending(path: "\(name).log"), encoding: .utf8)
    }

    /// What all services have written.
    var written: String { earlier + services.keys.map { (try? log($0)) ?? "" }.joined() }

    /// Runs a command in the container of a service; in that of a server as its user.
    @discardableResult
    func execute(_ command: [String], in service: String) async throws -> String {
        let user = service.hasPrefix("postgres") ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []
        return try await ProcessRun.output(of: user + command, environment: environment(of: service))
    }

    /// Waits until a node, or a site of Caddy, says that it is ready.
    func isReady(_ name: String) async throws {
        let address = try RelayAddress(try url(origins[name] ?? "http://\(addresses[name] ?? ""):8080"))
        while true {
            let answer = try? await HTTPRequestClient().send(HTTPRequest(.GET, "/readyz"), to: address, trust: RelayTrust(relay: nil))
            if answer?.status == 200 { return }
            // Compose starts a node again that ends, because its database is not there yet.
            if services[name] != nil { try await start(name) }
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

    var isAlive: Bool { (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(id)/exe")) != nil }

    /// What a list of processes shows of it.
    var seen: String { (try? String(contentsOfFile: "/proc/\(id)/cmdline", encoding: .utf8)) ?? "" }

    func kill() { if id > 0 { _ = Foundation.kill(id, SIGKILL) } }
}
