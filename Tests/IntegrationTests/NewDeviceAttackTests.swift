// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// An unapproved device tries to make another device unreachable.
@Suite(.timeLimit(.minutes(10))) struct NewDeviceAttackTests {
    @Test func newDeviceHasFewSessionsAndKnownDevicesAreServed() async throws {
        // The relay's limits are high, so the device's own limits apply.
        let home = try await TestHome(arguments: ["--limit", "tunnelsPerNewcomer=64", "--limit", "tunnelsOfNewcomers=64"])
        let tablet = try await home.device("Tablet")
        let pc = try await home.device("PC")
        for await event in pc.platform.remoteSystems() where event == .enumerationCompleted { break }
        try await pc.platform.publish(SessionTestApp.app(), for: pc.account)
        let phone = try await home.device("Phone")
        try await phone.sees("PC") { !$0.apps.isEmpty }
        try await tablet.sees("PC") { !$0.apps.isEmpty }
        let target = try pc.id

        // Each of its processes has its own session.
        func open(_ platform: ConnectedDevicesPlatform) async -> String {
            await SessionTestApp.outcome { () async throws(AppServiceError) in try await platform.open("echo", on: target) }
        }
        var processes = [phone.platform]
        for _ in 0..<2 {
            let process = phone.sibling()
            try await process.start()
            for await systems in process.remoteSystems().snapshots
            where systems.contains(where: { $0.displayName == "PC" && !$0.apps.isEmpty }) { break }
            processes.append(process)
        }
        #expect(await open(processes[0]) == "notAuthorized")
        #expect(await open(processes[1]) == "notAuthorized")
        // The session is declined with an error that says so.
        let third = await open(processes[2])
        #expect(third == "appUnavailable")

        let connection = try await tablet.platform.open("echo", on: target)
        #expect(try await connection.send(["Text": "known"]) == ["Text": "known"])
        // When its sessions end, there is room again.
        await processes[1].shutdown()
        while await open(processes[2]) != "notAuthorized" { try await Task.sleep(for: .milliseconds(50)) }
        for process in processes { await process.shutdown() }
        for device in [tablet, pc] { await device.platform.shutdown() }
    }
}
