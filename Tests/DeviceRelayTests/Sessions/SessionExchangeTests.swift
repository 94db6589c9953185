// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

@Suite struct SessionExchangeTests {
    @Test func aCallIsAnswered() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            let connection = try await world.open()
            #expect(try await connection.send(["Text": "hello"]) == ["Text": "hello"])
            connection.close()
        }
    }
}
