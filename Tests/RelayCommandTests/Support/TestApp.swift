// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

/// A device with one app in the test process.
final class TestApp {
    let platform: ConnectedDevicesPlatform
    private let account = ConnectedDevicesAccount(id: "me")
    private let directory = FileManager.default.temporaryDirectory.appending(path: "app-\(UUID().uuidString)")

    /// Keeps the relay running.
    private let home: TestAccount

    init(_ app: RemoteSystemAppRegistration, on name: String, of home: TestAccount) async throws {
        self.home = home
        let link = try JoinLink(parsing: try await home.link(), plainHTTP: .allowed)
        var settings = ConnectedDevicesPlatformSettings(
            relay: try #require(URL(string: link.origin)),
            relayID: link.relay,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        platform = ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test"))
        try await platform.start()
        try await platform.accounts.add(account, joining: link)
        try await platform.publish(app, for: account)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }
}
