// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Connecting to the relay, and the problems that prevent it.
@Suite(.timeLimit(.minutes(10))) struct ConnectionTests {
    /// The first connection problem of an account.
    private func problem(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) async throws -> ConnectionError {
        for await state in platform.connectionStates(for: account) {
            if let problem = state.problem { return problem }
        }
        throw CancellationError()
    }

    private func addFails(
        _ code: AccountError.Code,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        await #expect(sourceLocation: sourceLocation) { try await body() } throws: { error in
            guard let error = error as? AccountError else { return false }
            if error.code != code { Issue.record("\(error)", sourceLocation: sourceLocation) }
            return error.code == code
        }
    }

    @Test(arguments: [RelaydProcess.Security.plain, .ownCertificate])
    func otherRelayIsNotAccepted(_ security: RelaydProcess.Security) async throws {
        let home = try await TestHome(security)
        let good = try await home.link(for: "Anna")
        let other = RelayID(P256SigningKey().publicKey)
        let link = try JoinLink(origin: good.origin, relay: other, invite: good.invite, plainHTTP: .allowed)
        let device = try TestDevice("Phone", at: link, in: home)
        try await device.start()
        await addFails(.otherRelay) { try await device.platform.accounts.add(device.account, joining: link) }
        #expect(device.platform.accounts.all.isEmpty)
        if security == .ownCertificate {
            // With TLS, the relay's key was checked before the link was used, so the link is still valid. (Over plain HTTP, the
            // relay proves its identity only afterwards.)
            let right = try TestDevice("Right", at: good, in: home)
            try await right.start()
            try await right.platform.accounts.add(right.account, joining: good)
            await right.platform.shutdown()
        }
        await device.platform.shutdown()
    }

    @Test func invalidTokenIsNotAccepted() async throws {
        let home = try await TestHome()
        let phone = try await home.device("Phone")
        let stolen = try #require(try phone.platform.storedToken(phone.account))
        for token in ["garbage", stolen, stolen + "x"] {
            var settings = phone.settings
            settings.storageDirectory = home.directory.appending(path: UUID().uuidString)
            let thief = ConnectedDevicesPlatform(settings: settings, accessTokens: StaticAccessTokenProvider(AccessToken(token)))
            try await thief.start()
            await addFails(.accessTokenRequestFailed) { try await thief.accounts.add(ConnectedDevicesAccount(id: "me")) }
            #expect(thief.accounts.all.isEmpty)
            await thief.shutdown()
        }
        await phone.platform.shutdown()
    }

    @Test func linkWorksOnceAndAFailedJoinLeavesNothing() async throws {
        let home = try await TestHome()
        let link = try await home.link(for: "Anna")
        let (first, second) = (try TestDevice("First", at: link, in: home), try TestDevice("Second", at: link, in: home))
        try await first.start()
        try await first.platform.accounts.add(first.account, joining: link)
        try await second.start()
        await addFails(.linkInvalid) { try await second.platform.accounts.add(second.account, joining: link) }
        #expect(second.platform.accounts.all.isEmpty)
        try await home.relayd.kill()
        let fresh = try JoinLink(origin: link.origin, relay: link.relay, invite: Secret("AAAAAAAAAAAAAAAAAAAAAA"), plainHTTP: .allowed)
        await addFails(.networkNotAvailable) { try await second.platform.accounts.add(second.account, joining: fresh) }
        let folder = second.settings.storageDirectory.appending(path: "accounts").path
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty)
        await first.platform.shutdown()
        await second.platform.shutdown()
    }

    @Test func oneProcessHostsAndEightOthersAreClients() async throws {
        let home = try await TestHome()
        let (pc, phone) = (try await home.device("PC"), try await home.device("Phone"))
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        // A second process with the same storage directory cannot host.
        let second = pc.sibling()
        try await second.start()
        await #expect { try await second.publish(player(log: log), for: pc.account) } throws: {
            ($0 as? PublishError)?.code == .endpointInUse
        }
        #expect { try second.host(player(log: log), for: pc.account) } throws: { ($0 as? PublishError)?.code == .endpointInUse }
        // Nor can it host for an account that is added later.
        #expect { try second.host(player(log: log), for: ConnectedDevicesAccount(id: "later")) } throws: {
            ($0 as? PublishError)?.code == .endpointInUse
        }
        // It can do everything else, and so can seven more processes, but not a ninth.
        var clients = [second]
        for _ in 0..<7 {
            let client = pc.sibling()
            try await client.start()
            clients.append(client)
        }
        for client in clients {
            for await state in client.connectionStates(for: pc.account) where state.isConnected { break }
        }
        let ninth = pc.sibling()
        try await ninth.start()
        #expect(try await problem(ninth, pc.account).code == .limitExceeded)
        await ninth.shutdown()
        // The processes send concurrently in one lane. No launch is lost or repeated, and each process's launches stay in order.
        try await phone.platform.publish(player("org.example.target", log: log), for: phone.account)
        let target = RemoteSystemConnectionRequest(endpoint: try phone.id, appID: "org.example.target")
        for client in clients {
            for await systems in client.remoteSystems().snapshots where systems.contains(where: { $0.displayName == "Phone" }) { break }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, client) in clients.enumerated() {
                group.addTask {
                    for number in 0..<10 {
                        _ = try await RemoteLauncher(client).launch(try url("https://films.example/\(index)/\(number)"), on: target)
                    }
                }
            }
            try await group.waitForAll()
        }
        let expected = clients.indices.flatMap { index in (0..<10).map { "https://films.example/\(index)/\($0)" } }
        #expect(await log.entries.sorted() == expected.sorted())
        for client in clients { await client.shutdown() }
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }

    @Test func hostOnACopyOfTheStorageReplacesTheFirst() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        var settings = pc.settings
        settings.storageDirectory = home.directory.appending(path: "copy")
        try FileManager.default.copyItem(at: pc.settings.storageDirectory, to: settings.storageDirectory)
        let copy = ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test"))
        try await copy.start()
        try await copy.publish(player(log: log), for: pc.account)
        #expect(try await problem(pc.platform, pc.account).code == .endpointInUse)
        await copy.shutdown()
        await pc.platform.shutdown()
    }

    @Test(arguments: [-3_600_000, 3_600_000] as [Int64], [-3_600_000, 0, 3_600_000] as [Int64])
    func launchWorksWithClocksOffByAnHour(_ sender: Int64, _ target: Int64) async throws {
        let home = try await TestHome()
        func shift(_ offset: Int64) -> (inout ConnectedDevicesPlatformSettings) -> Void {
            { settings in
                let wall = settings.clock.wall
                settings.clock.wall = { wall() + offset }
            }
        }
        let phone = try await home.device("Phone", change: shift(sender))
        let pc = try await home.device("PC", change: shift(target))
        let log = Log<String>()
        try await pc.platform.publish(player(log: log), for: pc.account)
        let system = try await phone.sees("PC")
        let launcher = RemoteLauncher(phone.platform)
        _ = try await launcher.launch(try url("https://films.example/1"), on: .init(system))
        await pc.platform.suspend()
        let expired = try await launcher.submit(
            try url("https://films.example/2"),
            on: .init(system),
            options: .init(timeToLive: .milliseconds(1))
        )
        await launchFails(.expired) { try await expired.outcome() }
        #expect(await log.entries == ["https://films.example/1"])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func revokedDeviceIsNotifiedAndStaysRevoked() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await phone.platform.revoke(try pc.id, for: phone.account)
        #expect(try await problem(pc.platform, pc.account).code == .endpointRevoked)
        try await pc.restart()
        #expect(try await problem(pc.platform, pc.account).code == .endpointRevoked)
        try await pc.platform.accounts.remove(pc.account)
        // After joining by a new link it is a new endpoint.
        let link = try await home.link(for: "Anna")
        try await pc.platform.accounts.add(pc.account, joining: link)
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }
}

extension ConnectionTests {
    /// It learns of it from the issuer, which gives it no new token.
    @Test func deviceRevokedWhileAwayIsNotified() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let id = try pc.id
        await pc.platform.shutdown()
        try await phone.platform.revoke(id, for: phone.account)
        let storage = try StorageDirectory(path: pc.settings.storageDirectory.path, systemKey: pc.settings.systemKey)
        let scope = try #require(try storage.scopes().first)
        try await storage.open(scope, now: 0).tokens.withExclusiveAccess { $0?.accessTokenExpires = 0 }
        try await pc.restart()
        let problem = try await problem(pc.platform, pc.account)
        #expect(problem.code == .endpointRevoked)
        #expect(problem.message.contains("was revoked"))
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }
}

extension ConnectedDevicesPlatform {
    /// The access token that a thief would find in the storage.
    fileprivate func storedToken(_ account: ConnectedDevicesAccount) throws -> String? {
        let storage = try StorageDirectory(path: settings.storageDirectory.path, systemKey: settings.systemKey)
        let scope = try storage.scopes().first { $0.accountID == account.id }
        return try scope.map { try storage.open($0, now: 0).tokens.read()?.accessToken.exposed } ?? nil
    }
}
