// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

@Suite(.timeLimit(.minutes(10))) struct SigningOutTests {
    @Test func whoRemovesItsAccountMakesRoomForAnother() async throws {
        let home = try await TestHome(arguments: ["--limit", "endpointsPerAccount=1"])
        func device(_ name: String) async throws -> (TestDevice, JoinLink) {
            let link = try await home.link(for: "Anna")
            let device = try TestDevice(name, at: link, in: home)
            try await device.start()
            return (device, link)
        }
        let (first, firstLink) = try await device("first")
        try await first.platform.accounts.add(first.account, joining: firstLink)
        try await first.connected()
        let (second, secondLink) = try await device("second")
        await #expect(throws: AccountError.self) { try await second.platform.accounts.add(second.account, joining: secondLink) }
        await second.platform.shutdown()
        try await first.platform.accounts.remove(first.account)
        let (third, thirdLink) = try await device("third")
        try await third.platform.accounts.add(third.account, joining: thirdLink)
        try await third.connected()
        for device in [first, third] { await device.platform.shutdown() }
        #expect(try await home.relayd.stop() == 0)
    }
}
