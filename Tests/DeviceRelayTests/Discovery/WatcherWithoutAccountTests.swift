// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// A watcher that has nothing to wait for reports why.
@Suite(.timeLimit(.minutes(10))) struct WatcherWithoutAccountTests {
    private static func platform(in directory: TemporaryDirectory) throws -> ConnectedDevicesPlatform {
        var settings = ConnectedDevicesPlatformSettings(
            relay: try #require(URL(string: "http://127.0.0.1:1")),
            storageDirectory: URL(filePath: directory.path).appending(path: "storage"),
            device: DeviceDescription(name: "Phone", kind: .phone, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.path + "/system.key")
        return ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test"))
    }

    private static func first(of watcher: RemoteSystemWatcher) async -> RemoteSystemEvent? {
        var events = watcher.makeAsyncIterator()
        return await events.next()
    }

    private static func isNoAccount(_ event: RemoteSystemEvent?) -> Bool {
        guard case .error(let error)? = event else { return false }
        return error.code == .authenticationError && error.message.contains("no account")
    }

    @Test(arguments: [false, true]) func watcherReportsThatThereIsNoAccount(_ watchesBeforeStart: Bool) async throws {
        let directory = try TemporaryDirectory()
        let platform = try Self.platform(in: directory)
        if !watchesBeforeStart { try await platform.start() }
        async let first = Self.first(of: platform.remoteSystems())
        if watchesBeforeStart { try await platform.start() }
        #expect(Self.isNoAccount(await first))
        await platform.shutdown()
    }

    @Test func watcherContinuesWhenAnAccountIsAdded() async throws {
        let directories = CurrentValue<[String: DeviceDirectory]>([:])
        let watcher = RemoteSystemWatcher(directories: directories, filters: []) { true }
        var events = watcher.makeAsyncIterator()
        #expect(Self.isNoAccount(await events.next()))
        var directory = DeviceDirectory(account: "me")
        directory.completeEnumeration()
        directories.update { [directory] in $0["me"] = directory }
        #expect(await events.next() == .enumerationCompleted)
        directories.finish()
        #expect(await events.next() == nil)
    }
}
