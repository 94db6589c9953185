// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayTesting
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10))) struct TestRelayTests {
    struct Stop: Error {}

    @Test func storageIsRemovedWhenTheBodyThrows() async throws {
        var settings: ConnectedDevicesPlatformSettings?
        var platform: ConnectedDevicesPlatform?
        let account = ConnectedDevicesAccount(id: "test")
        await #expect(throws: Stop.self) {
            try await withTestRelay { relay in
                settings = await relay.settings(named: "Other")
                platform = try await relay.platform(named: "PC")
                throw Stop()
            }
        }
        let left = try #require(settings)
        #expect(!FileManager.default.fileExists(atPath: left.storageDirectory.deletingLastPathComponent().deletingLastPathComponent().path))
        #expect(platform?.accounts.all.contains(account) == false)
    }

    @Test func storageIsRemovedWhenTheTaskIsCancelled() async throws {
        let (directories, made) = AsyncStream.makeStream(of: URL.self)
        let task = Task {
            try await withTestRelay { relay in
                _ = try await relay.platform(named: "PC")
                made.yield(await relay.settings(named: "Other").storageDirectory.deletingLastPathComponent().deletingLastPathComponent())
                try await Task.sleep(for: .seconds(600))
            }
        }
        let directory = try #require(await directories.first { _ in true })
        #expect(FileManager.default.fileExists(atPath: directory.path))
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!FileManager.default.fileExists(atPath: directory.path))
    }

    @Test func relaysAndAccountsAreIsolated() async throws {
        let app = RemoteSystemAppRegistration(appID: "com.example.app", displayName: "App")
        try await withTestRelay { first in
            try await withTestRelay { second in
                _ = try await first.platform(named: "First", publishing: app)
                _ = try await second.platform(named: "Second", publishing: app)
                _ = try await first.platform(named: "Bob's", of: "Bob", publishing: app)
                let bob = try await first.platform(named: "Other of Bob's", of: "Bob")
                let names = try #require(await bob.remoteSystems().snapshots.first { !$0.isEmpty }).map(\.displayName)
                #expect(names == ["Bob's"])
                #expect(bob.accounts.all == [first.account])
            }
        }
    }

    @Test func appMayCreateItsOwnPlatform() async throws {
        try await withTestRelay { relay in
            let platform = ConnectedDevicesPlatform(
                settings: await relay.settings(named: "TV", kind: .hub),
                accessTokens: JoinLinkAccessTokenProvider(clientID: "com.example.app")
            )
            let account = ConnectedDevicesAccount(id: "mine")
            try await platform.start()
            try await platform.accounts.add(account, joining: try await relay.joinLink())
            try await platform.publish(RemoteSystemAppRegistration(appID: "com.example.app"), for: account)
            let phone = try await relay.platform(named: "Phone")
            let tv = try #require(await phone.remoteSystems().snapshots.first { !$0.isEmpty }?.first)
            #expect(tv.displayName == "TV" && tv.kind == .hub && tv.isNew == false)
            await platform.shutdown()
            _ = await phone.remoteSystems().snapshots.first { $0.first?.status == .unavailable }
        }
    }

    @Test func stoppedRelayAdmitsNoDevice() async throws {
        try await withTestRelay { relay in
            let link = try await relay.joinLink()
            await relay.stop()
            await relay.stop()
            await #expect(throws: (any Error).self) { try await relay.joinLink() }
            let platform = ConnectedDevicesPlatform(
                settings: await relay.settings(named: "TV"),
                accessTokens: JoinLinkAccessTokenProvider(clientID: "com.example.app")
            )
            try await platform.start()
            await #expect(throws: AccountError.self) { try await platform.accounts.add(relay.account, joining: link) }
            try await relay.start()
            try await relay.start()
            // The link was not used.
            try await platform.accounts.add(relay.account, joining: link)
            await platform.shutdown()
        }
    }
}
