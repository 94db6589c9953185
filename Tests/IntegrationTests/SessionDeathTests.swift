// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Relays and devices that are killed, restart, sleep, or act at the same time, while sessions are open.
@Suite(.timeLimit(.minutes(10))) struct SessionDeathTests {
    /// Tasks that wait for an opening connection, on an idle one, for an answer, and for the transfer of a large message.
    private func waiting(
        _ platform: ConnectedDevicesPlatform,
        _ request: RemoteSystemConnectionRequest,
        _ appID: String,
        isReady: () async throws -> Void
    )
        async throws -> [Task<String, Never>]
    {
        func open(_ name: String) async throws(AppServiceError) -> AppServiceConnection {
            try await platform.openAppService(AppServiceInfo(name: name, appID: appID), on: request, timeout: .seconds(600))
        }
        let idle = try await open("echo")
        let asking = try await open("never")
        let sending = try await open("echo")
        let body = try SessionTestApp.message(encodedBytes: 16 << 20)
        func outcome<Value>(_ operation: @escaping @Sendable () async throws(AppServiceError) -> Value) -> Task<String, Never> {
            Task { await SessionTestApp.outcome(operation) }
        }
        let tasks = [
            Task { "\((try? await idle.closed)?.status.description ?? "nothing")" },
            outcome { () async throws(AppServiceError) in try await asking.send([:], timeout: .seconds(600)) },
            outcome { () async throws(AppServiceError) in
                try await platform.openAppService(AppServiceInfo(name: "mute", appID: appID), on: request, timeout: .seconds(600))
            },
        ]
        try await isReady()
        // The transfer has started and cannot finish.
        let large = outcome { () async throws(AppServiceError) in
            while true { _ = try await sending.send(body, timeout: .seconds(600)) }
        }
        _ = try await idle.send([:], timeout: .seconds(600))
        return tasks + [large]
    }

    @Test func callsFailWhenTheTargetIsKilled() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let request = RemoteSystemConnectionRequest(endpoint: try pc.id, appID: "org.example.player")
        await pc.platform.shutdown()
        for _ in 0..<2 {
            // The second round finds the session that the first one left behind.
            let host = try HostProcess(pc)
            #expect(try await host.line() == "ready")
            try await phone.sees("PC") { $0.status == .available && !$0.apps.isEmpty }
            let tasks = try await waiting(phone.platform, request, "org.example.player") {
                let lines = [try await host.line(), try await host.line()]
                #expect(lines.sorted() == ["asked", "opened"])
            }
            try await host.kill()
            for task in tasks {
                let outcome = await task.value
                #expect(outcome == "remoteSystemUnavailable")
            }
        }
        await phone.platform.shutdown()
    }

    @Test func callsFailWhenTheRelayIsKilled() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let says = Log<String>()
        try await pc.platform.publish(SessionTestApp.app(events: says), for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let request = RemoteSystemConnectionRequest(endpoint: try pc.id, appID: SessionTestApp.appID)
        let tasks = try await waiting(phone.platform, request, SessionTestApp.appID) { _ = await says.wait(for: 1) }
        try await home.relayd.kill()
        for task in tasks {
            let outcome = await task.value
            #expect(outcome == "remoteSystemUnavailable")
        }
        // The service gets the reason, too.
        _ = await says.wait(for: 2)
        #expect(await says.entries.contains("remoteSystemUnavailable"))
        let target = try pc.id
        let none = await SessionTestApp.outcome { () async throws(AppServiceError) in try await phone.platform.open("echo", on: target) }
        #expect(none == "networkNotAvailable")
        _ = try await home.relayd.start()
        await phone.platform.networkChanged()
        await pc.platform.networkChanged()
        try await pc.connected()
        let connection = try await phone.platform.openAgain("echo", on: target)
        #expect(try await connection.send(["Back": true]) == ["Back": true])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func bothSidesCanOpenAtOnce() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        for device in [phone, pc] { try await device.platform.publish(SessionTestApp.app(), for: device.account) }
        try await phone.sees("PC") { !$0.apps.isEmpty }
        try await pc.sees("Phone") { !$0.apps.isEmpty }
        let ids = (phone: try phone.id, pc: try pc.id)
        // The phone joined first, so the PC is new to it.
        #expect(await phone.platform.confirm(ids.pc, for: phone.account))
        for round in 0..<10 {
            let connections = try await withThrowingTaskGroup(of: AppServiceConnection.self) { group in
                for (platform, peer) in [(phone.platform, ids.pc), (pc.platform, ids.phone)] {
                    for number in 0..<3 {
                        group.addTask {
                            let connection = try await platform.open("echo", on: peer)
                            let message: ValueSet = ["Round": .int(Int64(round)), "Number": .int(Int64(number))]
                            #expect(try await connection.send(message, timeout: .seconds(60)) == message)
                            return connection
                        }
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            // Each round starts without sessions, because suspending closes them.
            await phone.platform.suspend()
            for connection in connections { #expect(try await connection.closed.status == .cancelled) }
            await phone.platform.resume()
            try await phone.connected()
        }
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }

    @Test func suspensionClosesConnections() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let says = Log<String>()
        for device in [phone, pc] { try await device.platform.publish(SessionTestApp.app(events: says), for: device.account) }
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let target = try pc.id
        for sleeper in [phone, pc] {
            let connection = try await phone.platform.open("never", on: target)
            async let call = SessionTestApp.outcome { () async throws(AppServiceError) in
                try await connection.send([:], timeout: .seconds(600))
            }
            try await SessionTestApp.hasAsked(1, on: connection)
            await sleeper.platform.suspend()
            #expect(await call == "appServiceConnectionClosed")
            #expect(try await connection.closed.status == .cancelled)
            if sleeper === phone {
                #expect(
                    await SessionTestApp.outcome { () async throws(AppServiceError) in try await phone.platform.open("echo", on: target) }
                        == "networkNotAvailable"
                )
            }
            await sleeper.platform.resume()
            try await sleeper.connected()
            try await phone.sees("PC") { $0.status == .available }
        }
        // When the phone was suspended, the service saw its connection end. When the PC was suspended, the service itself was cancelled.
        #expect(await says.wait(for: 1) == ["cancelled"])
        let connection = try await phone.platform.openAgain("echo", on: target)
        #expect(try await connection.send(["Awake": true]) == ["Awake": true])
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}
