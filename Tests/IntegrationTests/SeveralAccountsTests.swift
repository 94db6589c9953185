// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Several accounts in one platform, at a real relay and its issuer.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SeveralAccountsTests {
    /// A platform whose users allow each device grant in their own browsers.
    struct Bench {
        let home: TestHome
        let device: TestDevice
        let work = ConnectedDevicesAccount(id: "work")

        init() async throws {
            home = try await TestHome(accounts: ["Anna", "Bob"])
            let relayd = home.relayd
            let (anna, bob) = (SignInBrowser(origin: relayd.origin), SignInBrowser(origin: relayd.origin))
            try await anna.setUp(try await relayd.run("account", "set-up", "Anna"))
            try await bob.setUp(try await relayd.run("account", "set-up", "Bob"))
            let provider = DeviceGrantAccessTokenProvider(clientID: "org.example.test") { prompt in
                let browser = prompt.accountID == "work" ? bob : anna
                try? await browser.decide(device: prompt.verificationURI, code: prompt.userCode)
            }
            device = try TestDevice("shared", at: try await home.link(for: "Anna"), in: home, accessTokens: provider)
            try await device.start()
        }
    }

    @Test func accountsAreSeparateAndPersist() async throws {
        let bench = try await Bench()
        let (device, work) = (bench.device, bench.work)
        let (accounts, me) = (device.platform.accounts, device.account)
        async let first = accounts.add(me)
        async let second = accounts.add(work)
        _ = try await (first, second)
        let ids = [accounts.endpoint(of: device.account), accounts.endpoint(of: work)]
        #expect(Set(ids).count == 2 && !ids.contains(nil))
        #expect(try accounts.login(of: work)?.isOfRelay == true)
        #expect(try accounts.login(of: work)?.session != accounts.login(of: device.account)?.session)
        // Each account has devices of its own, and a launch goes through the account of its target.
        let log = Log<String>()
        let tv = try await bench.home.device("TV", of: "Bob")
        try await tv.platform.publish(player(log: log), for: tv.account)
        let seen = try await device.sees("TV")
        #expect(seen.accountID == "work")
        for await systems in device.platform.remoteSystems(matching: [.account("me")]).snapshots {
            #expect(systems.isEmpty)
            break
        }
        // The device that signed in is new to the other one, which opens web pages for it.
        _ = try await device.platform.launch(try url("https://films.example/1"), on: .init(seen))
        #expect(await log.wait(for: 1) == ["https://films.example/1"])
        // Both are there after a restart, without a user.
        try await device.restart()
        #expect(device.platform.accounts.all.map(\.id) == ["me", "work"])
        try await device.connected()
        #expect([device.platform.accounts.endpoint(of: device.account), device.platform.accounts.endpoint(of: work)] == ids)
        // One goes, and the other one stays.
        #expect(try await device.platform.accounts.remove(work))
        #expect(device.platform.accounts.all.map(\.id) == ["me"])
        try await device.connected()
        let list = try await bench.home.relayd.run("endpoint", "list", "--json")
        #expect(list.contains(try #require(ids[0]).description))
        for device in [device, tv] { await device.platform.shutdown() }
    }

    @Test func addingAgainHasNoEffect() async throws {
        let bench = try await Bench()
        let (device, account) = (bench.device, bench.device.account)
        try await device.platform.accounts.add(account)
        let id = try device.id
        try await device.platform.accounts.add(account)
        #expect(try device.id == id)
        _ = try await bench.home.relayd.stop()
        // Without a network too.
        try await device.restart()
        try await device.platform.accounts.add(account)
        await device.platform.shutdown()
    }

    @Test func failedSignInLeavesNothing() async throws {
        let home = try await TestHome()
        let browser = SignInBrowser(origin: home.relayd.origin)
        try await browser.setUp(try await home.relayd.run("account", "set-up", "Anna"))
        let provider = DeviceGrantAccessTokenProvider(clientID: "org.example.test") { prompt in
            try? await browser.decide(device: prompt.verificationURI, code: prompt.userCode, "deny")
        }
        let device = try TestDevice("denied", at: try await home.link(for: "Anna"), in: home, accessTokens: provider)
        try await device.start()
        await #expect { try await device.platform.accounts.add(device.account) } throws: { error in
            let error = error as? AccountError
            return error?.code == .accessTokenRequestFailed && (error?.cause as? AccessTokenError)?.code == .declined
        }
        #expect(device.platform.accounts.all.isEmpty)
        let accounts = device.settings.storageDirectory.appending(path: "accounts").path
        #expect(try FileManager.default.contentsOfDirectory(atPath: accounts).isEmpty)
        await device.platform.shutdown()
    }

    /// The original's statuses.
    @Test(arguments: [
        (AccessTokenError.Code.noProvider, AccountError.Code.noAccessTokenProvider), (.networkNotAvailable, .networkNotAvailable),
        (.serviceFailed, .serviceFailed), (.declined, .accessTokenRequestFailed), (.signInRequired, .accessTokenRequestFailed),
        (.unknown, .accessTokenRequestFailed),
    ]) func providersErrorsBecomeStatuses(_ code: AccessTokenError.Code, _ status: AccountError.Code) async throws {
        struct Failing: AccessTokenProvider {
            let code: AccessTokenError.Code
            func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
                throw AccessTokenError(code, message: "no")
            }
            func accessTokenInvalidated(_ request: AccessTokenRequest) async {}
        }
        let home = try await TestHome()
        let device = try TestDevice("x", at: try await home.link(for: "Anna"), in: home, accessTokens: Failing(code: code))
        try await device.start()
        await #expect { try await device.platform.accounts.add(device.account) } throws: { ($0 as? AccountError)?.code == status }
        await device.platform.shutdown()
    }

    /// A login that the app cancels is ended, and a started sign-in needs no time limit of the platform.
    @Test func removedAccountEndsItsLoginAtTheIssuer() async throws {
        let bench = try await Bench()
        let device = bench.device
        try await device.platform.accounts.add(device.account)
        let session = try #require(try device.platform.accounts.login(of: device.account)?.session)
        let browser = SignInBrowser(origin: bench.home.relayd.origin)
        try await browser.setUp(try await bench.home.relayd.run("account", "set-up", "Anna"))
        #expect(try await browser.get("/auth/account").text.contains(session))
        #expect(try await device.platform.accounts.remove(device.account))
        #expect(try await !browser.get("/auth/account").text.contains(session))
        await device.platform.shutdown()
    }
}
