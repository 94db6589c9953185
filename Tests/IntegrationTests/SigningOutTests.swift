// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

@Suite(.timeLimit(.minutes(2))) struct SigningOutTests {
    @Test func whoRemovesItsAccountMakesRoomForAnother() async throws {
        let relayd = try await RelaydProcess(arguments: ["--limit", "endpointsPerAccount=1"])
        _ = try relayd.start()
        _ = try relayd.run("account", "add", "Anna")
        let directory = FileManager.default.temporaryDirectory.appending(path: "home-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        func device(_ name: String) async throws -> (TestDevice, JoinLink) {
            let link = try JoinLink(parsing: try relayd.run("invite"), plainHTTP: .allowed)
            let device = try TestDevice(name, at: link, in: directory)
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
        #expect(relayd.stop() == 0)
    }
}
