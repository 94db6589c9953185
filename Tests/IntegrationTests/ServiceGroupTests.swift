// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayLifecycle
import Logging
import ServiceLifecycle
import Testing

/// A platform among the services of a server program.
@Suite(.timeLimit(.minutes(5))) struct ServiceGroupTests {
    private let quiet = Logger(label: "group") { _ in SwiftLogNoOpLogHandler() }

    @Test(arguments: [true, false]) func theEndOfAGroupShutsThePlatformDown(isGraceful: Bool) async throws {
        let home = try await TestHome()
        let (pc, phone) = (try await home.device("PC"), try await home.device("Phone"))
        try await pc.platform.publish(player(log: Log()), for: pc.account)
        await pc.platform.shutdown()
        try await phone.sees("PC") { $0.status == .unavailable }
        let platform = pc.sibling()
        try platform.host(player(log: Log()), for: pc.account)
        let group = ServiceGroup(services: [platform], logger: quiet)
        let run = Task { try await group.run() }
        try await phone.sees("PC") { $0.status == .available }
        // The relay tells others first. An endpoint that leaves before the relay's welcome gives no reason.
        for await state in platform.connectionStates(for: pc.account) where state.isConnected { break }
        if isGraceful { await group.triggerGracefulShutdown() } else { run.cancel() }
        _ = await run.result
        try await phone.sees("PC") { $0.presence.reason == .shutdown }
        await #expect { try await platform.start() } throws: { ($0 as? PlatformError)?.code == .shutDown }
        #expect { try platform.host(player(log: Log()), for: pc.account) } throws: { ($0 as? PublishError)?.code == .notSignedIn }
        await phone.platform.shutdown()
    }

    @Test func aPlatformThatDoesNotStartEndsTheGroup() async throws {
        let home = try await TestHome()
        let pc = try await home.device("PC")
        await pc.platform.shutdown()
        let platform = pc.sibling()
        await platform.shutdown()
        let group = ServiceGroup(services: [platform], logger: quiet)
        await #expect { try await group.run() } throws: { ($0 as? PlatformError)?.code == .shutDown }
    }
}
