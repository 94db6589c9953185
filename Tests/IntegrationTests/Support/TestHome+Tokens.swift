// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayTesting
import Testing

extension TestHome {
    /// Two devices with access tokens from elsewhere discover, launch on and call each other.
    func devicesWork(with tokens: [String]) async throws {
        try await devicesWork(with: tokens.map { StaticAccessTokenProvider(AccessToken($0)) })
    }

    func devicesWork(with providers: [any AccessTokenProvider]) async throws {
        var devices: [TestDevice] = []
        for (name, provider) in zip(["Phone", "PC"], providers) {
            let device = try TestDevice(name, relay: url(relayd.origin), in: self, accessTokens: provider)
            try await device.start()
            try await device.platform.accounts.add(device.account)
            devices.append(device)
        }
        let (phone, pc) = (devices[0], devices[1])
        let launches = Log<String>()
        var app = player(log: launches)
        app.services = [AppService("echo") { connection, _ in try await connection.respond { $0.message } }]
        try await pc.platform.publish(app, for: pc.account)
        let system = try await phone.sees("PC") { !$0.apps.isEmpty }
        _ = try await RemoteLauncher(phone.platform).launch(try url("https://films.example/42"), on: .init(system))
        #expect(await launches.entries == ["https://films.example/42"])
        let echo = AppServiceInfo(name: "echo", appID: "org.example.player")
        try await phone.platform.withAppService(echo, on: RemoteSystemConnectionRequest(system)) { connection in
            let answer = try await connection.send(["Hello": 1])
            #expect(answer == ["Hello": 1])
        }
        for device in devices { await device.platform.shutdown() }
    }
}
