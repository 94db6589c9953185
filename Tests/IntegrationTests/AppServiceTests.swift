// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// App services between real devices, over sessions through tunnels of a real relay.
@Suite(.timeLimit(.minutes(10))) struct AppServiceTests {
    private let echo = AppServiceInfo(name: "echo", appID: "org.example.echo")

    private func app(_ log: Log<String>) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: echo.appID,
            services: [
                AppService("echo") { connection, caller in
                    await log.add(caller.deviceName)
                    try await connection.respond { $0.message }
                },
                AppService("back") { connection, _ in
                    // The host sends requests, and the caller answers.
                    for await request in connection.requests {
                        let answer = try await connection.send(["Question": .valueSet(request.message)])
                        try await request.respond(answer)
                    }
                },
            ]
        )
    }

    private func pair(_ security: RelaydProcess.Security = .plain) async throws -> (phone: TestDevice, pc: TestDevice, Log<String>) {
        let home = try await TestHome(security)
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let log = Log<String>()
        try await pc.platform.publish(app(log), for: pc.account)
        return (phone, pc, log)
    }

    @Test(arguments: [RelaydProcess.Security.plain, .ownCertificate])
    func messagesOfAllSizesWorkInBothDirections(_ security: RelaydProcess.Security) async throws {
        let (phone, pc, log) = try await pair(security)
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        try await phone.platform.withAppService(echo, on: request) { connection in
            let empty = try await connection.send([:])
            #expect(empty == [:])
            for size in [8, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, 16 << 20] {
                let message = try SessionTestApp.message(encodedBytes: size)
                let answer = try await connection.send(message, timeout: .seconds(300))
                #expect(answer == message, "\(size)")
            }
            let tooLarge = try SessionTestApp.message(encodedBytes: (16 << 20) + 1)
            await #expect {
                _ = try await connection.send(tooLarge)
            } throws: {
                let error = $0 as? AppServiceError
                return error?.code == .messageTooLarge && error?.message.contains("messageBytes is limited to 16777216") == true
            }
            let answer = try await connection.send(["Still": true])
            #expect(answer == ["Still": true])
        }
        #expect(await log.entries == ["Phone"])
        // Over the same session.
        let back = AppServiceInfo(name: "back", appID: echo.appID)
        try await phone.platform.withAppService(back, on: request) { connection in
            async let answered: Void = connection.respond { ["Answer": .valueSet($0.message)] }
            let answer = try await connection.send(["Hello": 1])
            #expect(answer == ["Answer": .valueSet(["Question": .valueSet(["Hello": 1])])])
            connection.close()
            try await answered
        }
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func unavailableOrForbiddenServiceGivesItsError() async throws {
        let (phone, pc, log) = try await pair()
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        func fails(_ code: AppServiceError.Code, _ service: AppServiceInfo, timeout: Duration = .seconds(30)) async {
            do {
                _ = try await phone.platform.openAppService(service, on: request, timeout: timeout)
                Issue.record("opened")
            } catch {
                #expect(error.code == code, "\(error)")
            }
        }
        await fails(.appServiceUnavailable, AppServiceInfo(name: "none", appID: echo.appID))
        await fails(.appNotInstalled, AppServiceInfo(name: "echo", appID: "org.example.none"))
        // A new device is not served before it is confirmed: here the phone, because the tablet joined later.
        try await phone.platform.publish(app(log), for: phone.account)
        try await pc.sees("Phone") { !$0.apps.isEmpty }
        let phoneRequest = RemoteSystemConnectionRequest(endpoint: try phone.id, appID: echo.appID)
        await #expect {
            _ = try await pc.platform.openAppService(echo, on: phoneRequest)
        } throws: {
            ($0 as? AppServiceError)?.code == .notAuthorized
        }
        try await phone.confirm(pc)
        try await pc.platform.withAppService(echo, on: phoneRequest) { connection in
            let answer = try await connection.send([:])
            #expect(answer == [:])
        }
        await pc.platform.shutdown()
        _ = try await phone.sees("PC") { $0.status == .unavailable }
        await fails(.remoteSystemUnavailable, echo, timeout: .zero)
        await phone.platform.shutdown()
    }

    @Test func serviceGetsTheCallingApp() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let callers = Log<String>()
        let friends = AppService("friends", allowedApps: ["org.example.friend"]) { connection, caller in
            await callers.add(caller.appID ?? "nobody")
            try await connection.respond { $0.message }
        }
        let open = AppService("open") { connection, caller in
            await callers.add(caller.appID ?? "nobody")
            try await connection.respond { $0.message }
        }
        try await pc.platform.publish(RemoteSystemAppRegistration(appID: SessionTestApp.appID, services: [friends, open]), for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let (platform, target) = (phone.platform, try pc.id)
        let request = RemoteSystemConnectionRequest(endpoint: target, appID: SessionTestApp.appID)
        func call(_ name: String, from appID: String? = nil) async -> String {
            await SessionTestApp.outcome { () async throws(AppServiceError) in
                let connection = try await platform.openAppService(SessionTestApp.service(name), on: request, from: appID)
                _ = try await connection.send([:])
                connection.close()
                _ = try await platform.sendStatelessMessage([:], to: SessionTestApp.service(name), on: request, from: appID)
            }
        }
        #expect(await call("friends") == "remoteSystemNotSupportedByApp")
        #expect(await call("open") == "success")
        #expect(await call("friends", from: "org.example.friend") == "success")
        // The only app of the platform is the calling app; with two apps, the caller must name one.
        try platform.host(RemoteSystemAppRegistration(appID: "org.example.friend"), for: phone.account)
        try await phone.connected()
        #expect(await call("friends") == "success")
        try platform.host(RemoteSystemAppRegistration(appID: "org.example.other"), for: phone.account)
        #expect(await call("friends") == "remoteSystemNotSupportedByApp")
        #expect(await call("friends", from: "org.example.friend") == "success")
        let friend = "org.example.friend"
        #expect(await callers.entries == ["nobody", "nobody"] + Array(repeating: friend, count: 6))
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func anAppWithAnIdentityServesItsOwnAppsAndThoseItNames() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let (identity, friend, other) = ("apps.example.org", "org.example.friend", "org.example.other")
        try home.prove(identity, [SessionTestApp.appID, other], on: "ios")
        try home.prove("apps.example.com", [other], on: "android")
        let opened = Log<String>()
        let host = RemoteSystemAppRegistration(
            appID: SessionTestApp.appID,
            launchHandler: LaunchHandler(schemes: ["https"]) { launch in
                await opened.add(launch.caller.appID ?? "nobody")
                return .launched
            },
            services: [AppService("open") { connection, _ in try await connection.respond { $0.message } }],
            identity: identity,
            allowedApps: [friend]
        )
        try await pc.platform.publish(host, for: pc.account)
        let system = try await phone.sees("PC") { !$0.apps.isEmpty }
        #expect(system.apps.map(\.identity) == [identity] && system.apps.map(\.allowedApps) == [[friend]])
        let (platform, target) = (phone.platform, try pc.id)
        let request = RemoteSystemConnectionRequest(endpoint: target, appID: SessionTestApp.appID)
        func call(from appID: String?) async -> String {
            await SessionTestApp.outcome { () async throws(AppServiceError) in
                let connection = try await platform.openAppService(SessionTestApp.service("open"), on: request, from: appID)
                _ = try await connection.send([:])
                connection.close()
            }
        }
        func message(from appID: String?) async -> String {
            await SessionTestApp.outcome { () async throws(AppServiceError) in
                _ = try await platform.sendStatelessMessage([:], to: SessionTestApp.service("open"), on: request, from: appID)
            }
        }
        func launch() async throws -> Bool {
            do {
                _ = try await RemoteLauncher(platform).launch(try url("https://films.example/42"), on: .init(system))
                return true
            } catch let error as RemoteLaunchError where error.code == .deniedByRemoteSystem {
                return false
            }
        }
        // Neither an app that states nothing, nor one of no identity, nor one whose endpoint does not publish it.
        for appID in [nil, other] {
            #expect(await call(from: appID) == "remoteSystemNotSupportedByApp")
            #expect(await message(from: appID) == "notAuthorized")
        }
        #expect(try await !launch())
        #expect(await call(from: friend) == "success")
        #expect(await message(from: friend) == "success")
        // Another identity is not enough.
        try await platform.publish(RemoteSystemAppRegistration(appID: other, identity: "apps.example.com"), for: phone.account)
        _ = try await pc.sees("Phone") { $0.apps.first?.identity == "apps.example.com" }
        #expect(await call(from: other) == "remoteSystemNotSupportedByApp")
        #expect(try await !launch())
        try await platform.publish(RemoteSystemAppRegistration(appID: other, identity: identity), for: phone.account)
        _ = try await pc.sees("Phone") { $0.apps.first?.identity == identity }
        #expect(await call(from: other) == "success")
        #expect(await message(from: other) == "success")
        #expect(try await launch())
        #expect(await opened.entries == [other])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func aDeviceSetsItsOwnLimits() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC") { $0.limits.messageBytes = 1_000 }
        let phone = try await home.device("Phone")
        try await pc.platform.publish(SessionTestApp.app(), for: pc.account)
        try await pc.connected()
        try await pc.confirm(phone)
        try await phone.sees("PC")
        let connection = try await phone.platform.open("echo", on: try pc.id)
        let (fits, tooLarge) = (try SessionTestApp.message(encodedBytes: 1_000), try SessionTestApp.message(encodedBytes: 1_001))
        #expect(try await connection.send(fits) == fits)
        #expect(
            await SessionTestApp.outcome { () async throws(AppServiceError) in try await connection.send(tooLarge) } == "messageTooLarge"
        )
        await pc.platform.shutdown()
        await phone.platform.shutdown()
    }

    @Test func connectionEndsWithItsPeerAndWithTheRelay() async throws {
        let (phone, pc, _) = try await pair()
        let request = RemoteSystemConnectionRequest(try await phone.sees("PC"))
        let connection = try await phone.platform.openAppService(echo, on: request)
        #expect(try await connection.send(["a": 1]) == ["a": 1])
        await pc.platform.shutdown()
        _ = try await connection.closed
        await #expect(throws: AppServiceError.self) { try await connection.send(["a": 1]) }
        await phone.platform.shutdown()
    }
}
