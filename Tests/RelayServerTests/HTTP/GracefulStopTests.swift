// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct GracefulStopTests {
    @Test func channelsAreNotifiedBeforeTheyClose() async throws {
        let core = RecordingCore()
        try await TestRelay.with(core: core) { relay in
            let client = try await TestWebSocket.welcomed(relay)
            let idle = try await relay.connect()
            let greeting = try await TestWebSocket.open(relay)
            _ = try await greeting.challenge()
            await relay.stop()
            #expect(try await client.message() == .restarting(RelayMessage.Restarting(after: 100, spread: 200)))
            #expect(await client.closeCode() == 1012)
            #expect(await greeting.closeCode() == 1012)
            #expect(await idle.textUntilClosed().isEmpty)
        }
        #expect(Array(core.disconnected.values) == [false])
    }

    @Test func relayStopsAfterItsConnectionsClose() async throws {
        let relay = try await TestRelay.with { relay in
            let client = try await TestWebSocket.welcomed(relay)
            #expect(relay.service.connections.current == 1)
            // It never answers the close frame.
            try await client.socket.stopReading()
            return relay
        }
        #expect(relay.service.connections.current == 0)
    }

    @Test func relayStopsAfterDrainSeconds() async throws {
        let core = RecordingCore()
        try await TestRelay.with(core: core, configure: { $0.drainSeconds = 1 }) { relay in
            let client = try await TestWebSocket.welcomed(relay)
            try await client.socket.stopReading()
        }
        #expect(core.disconnected.count == 1)
    }

    @Test func portInUseErrorNamesTheOption() async throws {
        try await TestRelay.with { relay in
            let error = await #expect(throws: ListenError.self) {
                try await TestRelay.with(configure: {
                    $0.listen = [ListenAddress(host: "127.0.0.1", port: relay.port)]
                    // Not the next port, which may be in use too.
                    $0.tunnelListen = [ListenAddress(host: "127.0.0.1", port: 0)]
                }) { _ in }
            }
            #expect(error?.description.contains("--listen") == true)
        }
    }

    @Test func addressOfAnotherMachineIsReported() async throws {
        let error = await #expect(throws: ListenError.self) {
            try await TestRelay.with(configure: {
                $0.listen = [ListenAddress(host: "192.0.2.1", port: 0)]
                $0.allowsPlainHTTP = true
            }) { _ in }
        }
        #expect(error?.description.contains("not an address of this machine") == true)
    }
}
