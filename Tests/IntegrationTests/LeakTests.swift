// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Whatever begins also ends. Alone in its process run, since it counts the whole process's descriptors.
@Suite(.timeLimit(.minutes(5)), .serialized) struct LeakTests {
    private func descriptors() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }

    @Test func fiveHundredComingsAndGoingsLeaveNothingBehind() async throws {
        let home = try await TestHome()
        let device = try await home.device("Phone")
        let log = Log<String>()
        // Whatever is made once is made now.
        for _ in 0..<5 {
            try await device.restart { $0.host(player(log: log), for: device.account) }
            try await device.connected()
        }
        await device.platform.shutdown()
        var endpoints: [WeakEndpoint] = []
        var highest = 0
        for round in 0..<500 {
            try await device.restart { if round % 2 == 0 { $0.host(player(log: log), for: device.account) } }
            // Also in the middle of connecting.
            if round % 5 != 0 { try await device.connected() }
            endpoints.append(WeakEndpoint(device.platform, device.account))
            await device.platform.shutdown()
            highest = max(highest, try descriptors())
        }
        // Other suites may run beside this one; five hundred leaks would still be seen.
        #expect(highest < 400)
        #expect(endpoints.allSatisfy { $0.isGone })
    }

    @Test func joiningAndLeavingLeavesNothingBehind() async throws {
        let home = try await TestHome()
        let (owner, guest) = (try await home.device("Owner"), try await home.device("Guest"))
        try await guest.platform.accounts.remove(guest.account)
        for _ in 0..<20 {
            let link = try await owner.platform.accounts.invite(to: owner.account)
            try await guest.platform.accounts.add(guest.account, joining: link)
            try await guest.platform.accounts.remove(guest.account)
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: guest.settings.storageDirectory.appending(path: "accounts").path).isEmpty
        )
        #expect(try FileManager.default.contentsOfDirectory(atPath: guest.settings.storageDirectory.appending(path: "keys").path).isEmpty)
        await owner.platform.shutdown()
        await guest.platform.shutdown()
    }

    @Test func cancellingWhateverWaitsEndsTheWaiting() async throws {
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
        // The end of the platform ends them too.
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
