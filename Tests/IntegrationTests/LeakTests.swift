// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Checks that all resources are released. Other suites run at the same time, so it only counts its own: open files below
/// its devices' directory, connections to its relay, and endpoints that are still allocated.
@Suite(.timeLimit(.minutes(10)), .serialized) struct LeakTests {
    /// What is not released shows up in every round.
    private static let rounds = Sweep.isFull ? 500 : 50

    /// The open files of this process below a directory.
    private func openFiles(below directory: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
            .compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)") }
            .filter { $0.hasPrefix(directory.path) }
    }

    /// The number of open connections to a local port, counted on the client side.
    private func connections(to port: Int) throws -> Int {
        let hexadecimal = String(port, radix: 16, uppercase: true)
        let end = ":" + String(repeating: "0", count: max(0, 4 - hexadecimal.count)) + hexadecimal
        return try String(contentsOfFile: "/proc/net/tcp", encoding: .utf8).split(separator: "\n").count { line in
            let fields = line.split(separator: " ")
            return fields.count > 3 && fields[2].hasSuffix(end) && fields[3] == "01"
        }
    }

    private func expectNothingLeft(of home: TestHome, _ endpoints: [WeakEndpoint]) throws {
        #expect(try openFiles(below: home.directory) == [])
        #expect(try connections(to: home.relayd.port) == 0)
        #expect(endpoints.allSatisfy { $0.isGone })
    }

    @Test func restartsLeaveNoResources() async throws {
        let home = try await TestHome()
        let device = try await home.device("Phone")
        let log = Log<String>()
        var endpoints: [WeakEndpoint] = []
        for round in 0..<Self.rounds {
            try await device.restart { if round % 2 == 0 { try $0.host(player(log: log), for: device.account) } }
            // Every fifth round shuts down while it connects.
            if round % 5 != 0 { try await device.connected() }
            endpoints.append(WeakEndpoint(device.platform, device.account))
            await device.platform.shutdown()
        }
        try expectNothingLeft(of: home, endpoints)
    }

    /// Provides the current login's token, which is not bound to a key.
    private final class BearerToken: AccessTokenProvider {
        private let token = Mutex(AccessToken(""))

        func set(_ text: String) { token.withLock { $0 = AccessToken(text) } }
        func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken { token.withLock { $0 } }
        func accessTokenInvalidated(_ request: AccessTokenRequest) async {}
    }

    @Test func joinsAndLeavesLeaveNoFiles() async throws {
        let home = try await TestHome()
        let token = BearerToken()
        var settings = ConnectedDevicesPlatformSettings(
            relay: try url(home.relayd.origin),
            storageDirectory: home.directory.appending(path: "storage"),
            device: DeviceDescription(name: "Guest", kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: home.directory.appending(path: "system.key").path)
        let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: token)
        try await platform.start()
        var endpoints: [WeakEndpoint] = []
        for number in 0..<Self.rounds {
            // An endpoint that leaves ends its login.
            token.set(try await home.bearerToken())
            let account = ConnectedDevicesAccount(id: "guest \(number)")
            try await platform.accounts.add(account)
            endpoints.append(WeakEndpoint(platform, account))
            try await platform.accounts.remove(account)
        }
        #expect(platform.accounts.all.isEmpty)
        for folder in ["accounts", "keys"] {
            #expect(try FileManager.default.contentsOfDirectory(atPath: settings.storageDirectory.appending(path: folder).path).isEmpty)
        }
        await platform.shutdown()
        try expectNothingLeft(of: home, endpoints)
    }

    @Test func connectionsAndSessionsLeaveNoResources() async throws {
        let home = try await TestHome(networks: ["127.0.0.11"], arguments: ["--limit", "tunnelOpensPerSecond=10000"])
        let network = try await TestNetwork("127.0.0.11", to: home.relayd)
        // A session ends with its last connection.
        let phone = try await home.guests(in: [network]) { $0.sessionTiming.idleInterval = .zero }[0]
        let pc = try await home.device("PC")
        try await pc.platform.publish(SessionTestApp.app(), for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let (platform, target) = (phone.platform, try pc.id)
        func exchange(_ number: Int) async throws {
            let connection = try await platform.open("echo", on: target)
            let message: ValueSet = ["Number": .int(Int64(number))]
            #expect(try await connection.send(message) == message)
            connection.close()
        }
        // One connection stays open while many others open and close one after the other.
        let staying = try await platform.open("echo", on: target)
        let files = try openFiles(below: home.directory).count
        for number in 0..<Self.rounds { try await exchange(number) }
        #expect(try await network.tunnels == 1)
        #expect(try openFiles(below: home.directory).count == files)
        staying.close()
        // From here on nearly every connection has its own session.
        while try await network.tunnels < Self.rounds { try await exchange(0) }
        while try connections(to: home.relayd.tunnelPort) > 0 { await Task.yield() }
        #expect(try openFiles(below: home.directory).count == files)
        let endpoints = [phone, pc].map { WeakEndpoint($0.platform, $0.account) }
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        try await network.stop()
        try expectNothingLeft(of: home, endpoints)
    }

    @Test func cancellationEndsEveryWait() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await pc.platform.publish(player(log: Log()), for: pc.account)
        let system = try await phone.sees("PC")
        await pc.platform.shutdown()
        let (platform, account) = (phone.platform, phone.account)
        let command = try await RemoteLauncher(platform).submit(try url("https://films.example/"), on: .init(system))
        let tasks: [Task<Void, Never>] = [
            Task { for await _ in platform.remoteSystems() {} },
            Task { for await _ in platform.remoteSystems().snapshots {} },
            Task { for await _ in platform.connectionStates(for: account) {} },
            Task { for await _ in command.statuses {} },
            Task { await launchFails(.pending) { try await command.outcome() } },
            Task {
                await launchFails(.pending) {
                    try await RemoteLauncher(platform).launch(try url("https://films.example/"), on: .init(system))
                }
            },
        ]
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
        // They also end with the platform.
        let others: [Task<Void, Never>] = [
            Task { for await _ in platform.remoteSystems() {} },
            Task { for await _ in platform.connectionStates(for: account) {} },
            Task { for await _ in command.statuses {} },
            Task { await launchFails(.pending) { try await command.outcome() } },
        ]
        await phone.platform.shutdown()
        for task in others { await task.value }
    }
}

private struct WeakEndpoint {
    private weak let endpoint: AnyObject?

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) { endpoint = platform.running(account) }

    var isGone: Bool { endpoint == nil }
}
