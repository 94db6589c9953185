// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

/// The operator removes a signing key that others may have.
@Suite(.timeLimit(.minutes(5))) struct SigningKeyTests {
    private struct Listed: Decodable {
        var id: String
        var phase: String
    }

    /// The keys after a command: the list, or a removal.
    private func keys(_ relayd: RelaydProcess, removing id: String? = nil) async throws -> [Listed] {
        let command = ["account", "key", id == nil ? "list" : "remove", "--json", "--data-directory", relayd.directory.path]
        let ended = try await RelaydProcess.run(command + (id.map { ["--", $0] } ?? []))
        #expect(ended.status == 0, "\(ended.error)")
        return try JSONDecoder().decode([Listed].self, from: Data(ended.output.utf8))
    }

    /// A device with a token that it cannot renew.
    private func guest(_ name: String, at origin: String, _ token: String, of home: TestHome) async throws -> TestDevice {
        let device = try TestDevice(name, relay: url(origin), in: home, accessTokens: StaticAccessTokenProvider(AccessToken(token)))
        try await device.start()
        return device
    }

    private func isRefused(_ device: TestDevice) async {
        for await state in device.platform.connectionStates(for: device.account) where state.problem != nil { break }
    }

    private func launch(_ page: Int, from phone: TestDevice, _ target: RemoteSystemConnectionRequest) async throws {
        _ = try await RemoteLauncher(phone.platform).submit(try url("https://films.example/\(page)"), on: target).outcome()
    }

    @Test func tokensOfARemovedKeyAreRefused() async throws {
        let home = try await TestHome()
        let none = try await keys(home.relayd)
        #expect(none.isEmpty)
        let (pc, log) = (try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let token = try await home.bearerToken()
        let guest = try await guest("Guest", at: home.relayd.origin, token, of: home)
        try await guest.platform.accounts.add(guest.account)
        try await guest.connected()

        let first = try await keys(home.relayd)
        #expect(first.map(\.phase) == ["signing"])
        for wrong in ["nobody", first[0].id + "x", ""] {
            let ended = try await RelaydProcess.run(
                ["account", "key", "remove", "--data-directory", home.relayd.directory.path, "--", wrong]
            )
            #expect(ended.status != 0 && ended.error.contains("relayd account key list"), "\(ended.error)")
        }
        #expect(try await keys(home.relayd).map(\.id) == first.map(\.id))

        // The only key makes room for a new one.
        let second = try await keys(home.relayd, removing: first[0].id)
        #expect(second.map(\.phase) == ["signing"] && second[0].id != first[0].id)
        await isRefused(guest)
        try await launch(1, from: phone, target)

        // Also while the relay does not run.
        #expect(try await home.relayd.stop() == 0)
        let third = try await keys(home.relayd, removing: second[0].id)
        #expect(third.map(\.phase) == ["signing"] && third[0].id != second[0].id)
        _ = try await home.relayd.start()
        try await launch(2, from: phone, target)
        #expect(await log.entries == ["https://films.example/1", "https://films.example/2"])
        for device in [guest, phone, pc] { await device.platform.shutdown() }
        #expect(try await home.relayd.stop() == 0)
    }

    @Test(.enabled(if: PostgresServer.isPossible)) func allNodesRefuseTokensOfARemovedKey() async throws {
        let (store, nodes) = (try await PostgresServer.shared.makeURI(), try RelayNodes(2))
        let home = try await TestHome(port: nodes.ports[0], arguments: nodes.arguments(0, store: store))
        let second = try await RelaydProcess(port: nodes.ports[1], arguments: nodes.arguments(1, store: store))
        try RelayNodes.copyKeys(from: home.relayd, to: second.directory)
        _ = try await second.start()
        let (pc, log) = (try await home.device("PC"), Log<String>())
        try await pc.platform.publish(player(log: log), for: pc.account)
        let phone = try await home.device("Phone")
        let target = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let token = try await home.bearerToken()
        // The account is served by the first node, and the token is known to both.
        var guests: [TestDevice] = []
        for (name, origin) in [("One", home.relayd.origin), ("Two", second.origin)] {
            let guest = try await guest(name, at: origin, token, of: home)
            try await guest.platform.accounts.add(guest.account)
            try await guest.connected()
            guests.append(guest)
        }
        let first = try await keys(second)
        #expect(first.map(\.phase) == ["signing"])
        let left = try await keys(second, removing: first[0].id)
        #expect(left.map(\.phase) == ["signing"] && left[0].id != first[0].id)
        for guest in guests { await isRefused(guest) }
        #expect(try await keys(home.relayd).map(\.id) == left.map(\.id))
        try await launch(1, from: phone, target)
        #expect(await log.entries == ["https://films.example/1"])
        for device in guests + [phone, pc] { await device.platform.shutdown() }
        #expect(try await second.stop() == 0)
        #expect(try await home.relayd.stop() == 0)
    }
}
