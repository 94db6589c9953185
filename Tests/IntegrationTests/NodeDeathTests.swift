// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

/// A relay of two nodes on one PostgreSQL database.
@Suite(.timeLimit(.minutes(5)), .enabled(if: PostgresServer.isPossible)) struct NodeDeathTests {
    private struct Nodes {
        let home: TestHome
        let second: RelaydProcess
        let store: String
    }

    /// Endpoints dial either node.
    private func nodes() async throws -> Nodes {
        let (store, nodes) = (try await PostgresServer.shared.makeURI(), try RelayNodes(2))
        let home = try await TestHome(port: nodes.ports[0], arguments: nodes.arguments(0, store: store))
        let second = try await RelaydProcess(port: nodes.ports[1], arguments: nodes.arguments(1, store: store))
        try RelayNodes.copyKeys(from: home.relayd, to: second.directory)
        _ = try await second.start()
        return Nodes(home: home, second: second, store: store)
    }

    /// Endpoints that dial different nodes meet, because one of them is sent to the other node.
    @Test func endpointsAtDifferentNodesMeet() async throws {
        let nodes = try await nodes()
        let (pc, log) = (try await nodes.home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let second = try url(nodes.second.origin)
        let phone = try await nodes.home.device("Phone") { $0.relay = second }
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target).outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await nodes.second.stop() == 0)
        #expect(try await nodes.home.relayd.stop() == 0)
    }

    /// The node of an account is killed. The other one finds that out, and serves the account.
    @Test func accountGoesOnAtAnotherNode() async throws {
        let nodes = try await nodes()
        let (pc, log) = (try await nodes.home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await nodes.home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        try await nodes.home.relayd.kill()
        let command = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target)
        _ = try await command.outcome()
        #expect(await log.entries == ["https://films.example/1"])
        // It comes back as another node, beside the one that serves the account now.
        _ = try await nodes.home.relayd.start()
        let other = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/2"), on: target)
        _ = try await other.outcome()
        #expect(await log.entries.count == 2)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await nodes.second.stop() == 0)
        #expect(try await nodes.home.relayd.stop() == 0)
    }

    /// A node is cut from the database. Another one answers at the common URL, so the devices do not stay until they would have to go.
    @Test(.enabled(if: Nginx.isPossible, "needs Debian's package nginx")) func devicesLeaveANodeThatIsCutOff() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let proxy = try await CuttingProxy(to: database)
        let (port, nodes) = (try FreePort.take(), try RelayNodes(2))
        func arguments(_ number: Int, _ parameters: [(name: String, value: String)]) -> [String] {
            let store = "postgres:///\(parameters[2].value)?host=\(parameters[0].value)&user=\(PostgresServer.user)"
            let url = "http://127.0.0.1:\(nodes.ports[number])"
            return ["--url", "http://127.0.0.1:\(port)", "--trusted-proxy", "127.0.0.1", "--store", store, "--node-url", url]
        }
        let errors = try ErrorLog()
        let home = try await TestHome(port: nodes.ports[0], arguments: arguments(0, proxy.parameters), relayErrors: errors.handle)
        let second = try await RelaydProcess(port: nodes.ports[1], arguments: arguments(1, database))
        try RelayNodes.copyKeys(from: home.relayd, to: second.directory)
        let balancer = try await Balancer(port: port, to: [home.relayd])
        let (pc, log) = (try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        _ = try await second.start()
        try await balancer.lead(to: [home.relayd, second])
        while try await list("postgres:///\(database[2].value)?host=\(database[0].value)&user=\(PostgresServer.user)")
            .map(\.phase) != ["serving", "serving"]
        { try await Task.sleep(for: .milliseconds(100)) }

        proxy.isCut = true
        try await errors.contains("does not reach its database, and another node does")
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target).outcome()
        #expect(await log.entries == ["https://films.example/1"])
        #expect(!errors.text.contains("of no use for long"))
        proxy.isCut = false
        try await home.relayIs(ready: true)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await second.stop() == 0)
        #expect(try await home.relayd.stop() == 0)
        await proxy.end()
    }

    /// A killed node that starts again says that its former start is dead, so nobody waits until that is found out.
    @Test func nodeThatStartsAgainFreesItsAccounts() async throws {
        let nodes = try await nodes()
        let (pc, log) = (try await nodes.home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        try await nodes.home.relayd.kill()
        _ = try await nodes.home.relayd.start()
        let listed = try await list(nodes.store)
        #expect(listed.map(\.phase) == ["dead", "serving", "serving"])
        let phone = try await nodes.home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target).outcome()
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await nodes.second.stop() == 0)
        #expect(try await nodes.home.relayd.stop() == 0)
    }

    /// What an operator asks at one node reaches the devices at another one.
    @Test func operatorUsesAnyNode() async throws {
        let nodes = try await nodes()
        let pc = try await nodes.home.device("PC")
        let phone = try await nodes.home.device("Phone")
        let listed = try await nodes.second.run("endpoint", "list")
        #expect(listed.contains("PC") && listed.contains("Phone"))
        _ = try await nodes.second.run("account", "rename", "Anna", "Bea")
        #expect(try await nodes.home.relayd.run("account", "list").contains("Bea"))
        let link = try await nodes.second.run("invite", "Bea")
        #expect(try await nodes.home.relayd.run("account", "list").contains("Bea") && link.contains("invite="))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await nodes.second.stop() == 0)
        #expect(try await nodes.home.relayd.stop() == 0)
    }

    private struct Listed: Decodable {
        var number: Int
        var phase: String
        var accounts: Int
    }

    private func list(_ store: String) async throws -> [Listed] {
        let ended = try await RelaydProcess.run(["node", "list", "--json", "--store", store])
        #expect(ended.status == 0, "\(ended.error)")
        return try JSONDecoder().decode([Listed].self, from: Data(ended.output.utf8))
    }

    /// A drained node gives its accounts away, and its devices go on at the other one.
    @Test func nodesAreListedAndDrained() async throws {
        let nodes = try await nodes()
        let (pc, log) = (try await nodes.home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await nodes.home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let before = try await list(nodes.store)
        #expect(before.map(\.phase) == ["serving", "serving"] && before[0].accounts > 0 && before[1].accounts == 0)
        let drained = try await RelaydProcess.run(["node", "drain", "\(before[0].number)", "--store", nodes.store])
        #expect(drained.status == 0, "\(drained.error)")
        while try await list(nodes.store).map({ $0.accounts > 0 }) != [false, true] { try await Task.sleep(for: .milliseconds(100)) }
        #expect(try await list(nodes.store).map(\.phase) == ["draining", "serving"])
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/1"), on: target).outcome()
        #expect(await log.entries == ["https://films.example/1"])
        let unknown = try await RelaydProcess.run(["node", "drain", "99", "--store", nodes.store])
        #expect(unknown.status == 2 && unknown.error.contains("relayd node list"))
        let without = try await RelaydProcess.run(["node", "list", "--data-directory", nodes.second.directory.path])
        #expect(without.status == 2 && without.error.contains("--store"))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await nodes.second.stop() == 0)
        #expect(try await nodes.home.relayd.stop() == 0)
    }

    /// A key of another relay, and no key beside a database with data.
    @Test func nodeNeedsTheRelaysKeys() async throws {
        let store = try await PostgresServer.shared.makeURI()
        let home = try await TestHome(arguments: ["--store", store])
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        let start = ["serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "off", "--store", store, "--data-directory", directory.path]
        let without = try await RelaydProcess.run(start)
        #expect(without.status == 2 && without.error.contains("copy it from another node"))
        #expect(!FileManager.default.fileExists(atPath: directory.appending(path: "relay.key").path))
        let other = try await TestHome(accounts: [])
        _ = try await other.relayd.stop()
        try RelayNodes.copyKeys(from: other.relayd, to: directory)
        let wrong = try await RelaydProcess.run(start)
        #expect(wrong.status == 2 && wrong.error.contains("copy relay.key and issuer.key"))
        #expect(try await home.relayd.stop() == 0)
    }

    @Test(arguments: [
        ("postgres:///relay?host=/nowhere", 1, "/nowhere"), ("postgres://relay:secret@127.0.0.1/relay", 2, "~/.pgpass"),
        ("mysql://relay", 2, "postgres://"), ("postgres://%", 2, "store:"), ("postgres:///relay?options=-cfsync%3Doff", 2, "options"),
    ])
    func wrongStoresAreRefused(store: String, status: Int32, reason: String) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "node-\(UUID().uuidString)")
        let ended = try await RelaydProcess.run(
            ["serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "off", "--store", store, "--data-directory", directory.path]
        )
        #expect(ended.status == status && ended.error.contains(reason) && !ended.error.contains("secret"))
        try? FileManager.default.removeItem(at: directory)
    }
}
