// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Fetches of a suspended endpoint, at a scripted relay.
@Suite(.timeLimit(.minutes(1))) struct FetchingTests {
    @Test func aFetchWaitsUntilAnEarlierConnectionHasEnded() async throws {
        // Time does not end the leaving.
        let device = try await ScriptedDevice(clock: PlatformClock(wall: PlatformClock.system.wall, steady: { 1_000_000 }))
        try device.platform.host(RemoteSystemAppRegistration(appID: "org.example.app"), for: device.account)
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        let (platform, endpoint) = (device.platform, try device.endpoint())
        device.relay.skipNextLeaving()
        let suspending = Task { await platform.suspend() }
        let leaving = try await device.relay.next { if case .leaving(let message) = $0 { message } else { nil } }

        let fetching = Task { await platform.poll(within: .seconds(60)) }
        // It waits for the relay's answer, and asks for nothing by the old connection.
        while await !endpoint.life.isWanted { await Task.yield() }
        for _ in 0..<100 { _ = await endpoint.life }
        #expect(endpoint.fetching.value.answers == 0)
        device.relay.send(.ok(.init(ref: leaving.ref)))
        let next = try await device.relay.next { $0 }
        guard case .hello = next else {
            Issue.record("\(next)")
            return
        }
        #expect(await fetching.value)
        #expect(endpoint.fetching.value.answers == 1)
        await suspending.value
        await device.end()
    }
}
