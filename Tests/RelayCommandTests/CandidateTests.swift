// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

#if os(Linux)
extension NearbyTests {
    /// Where multicast is filtered, devices learn through the relay where they are. Then they need it no more.
    @Test func candidatesServeWhereMulticastIsFiltered() async throws {
        var world = try await World(relayHasOwnCables: true, filtersMulticast: true)
        let ping = try world.phone.start("exec relay ping pc --interval 0.2 --timeout 60")
        try await Self.isDirect(true, world.phone)
        await world.loseRelay()
        let last = try await Self.lastNumber(of: ping)
        _ = try await ping.line { (Self.number(in: $0) ?? 0) > last + 3 }
        ping.send(SIGINT)
        let output = await ping.finish()
        #expect(!output.text.contains("no answer"), "\(output.text) \(output.errorText)")
        // The next process knows the address that worked last.
        let again = try await world.phone.run("relay ping pc --count 1")
        #expect(again.status == 0, "\(again.text) \(again.errorText)")
        // Nothing else leads to the PC: its agent listens at another port then.
        try await world.restartAgent()
        let lost = try await world.phone.run("relay ping pc --count 1")
        #expect(lost.status == 5, "\(lost.text) \(lost.errorText)")
        // And the next candidates do.
        try await world.startRelay(at: "10.99.0.1")
        _ = try await world.agent.errorLine { $0.contains("connected again") }
        let third = try world.phone.start("exec relay ping pc --interval 0.2 --timeout 60")
        try await Self.isDirect(true, world.phone)
        third.send(SIGINT)
        _ = await third.finish()
    }

    /// Behind a router there is no multicast, but the way is open.
    @Test func candidatesServeAcrossSubnets() async throws {
        var world = try await World(relayHasOwnCables: true, filtersMulticast: true, phoneIsElsewhere: true)
        let ping = try world.phone.start("exec relay ping pc --interval 0.2 --timeout 60")
        try await Self.isDirect(true, world.phone)
        await world.loseRelay()
        let last = try await Self.lastNumber(of: ping)
        _ = try await ping.line { (Self.number(in: $0) ?? 0) > last + 3 }
        ping.send(SIGINT)
        _ = await ping.finish()
        // The address that worked last is one of another network, so it is not dialled without being named again.
        let again = try await world.phone.run("relay ping pc --count 1")
        #expect(again.status == 5, "\(again.text) \(again.errorText)")
    }
}
#endif
