// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOWebSocket
import RelayProtocol
import Testing

/// Asking a relay which one it is.
@Suite(.timeLimit(.minutes(10))) struct IdentifyTests {
    static func address(_ server: TestRelayServer) throws -> RelayAddress {
        try RelayAddress(try #require(URL(string: "http://127.0.0.1:\(server.port)")))
    }

    /// A server that sends this text as soon as the WebSocket is open.
    static func serverSending(_ text: String) async throws -> TestRelayServer {
        try await TestRelayServer(.plain, .sending(text))
    }

    static func result(_ server: TestRelayServer, timeout: Int64 = 10_000) async throws -> Result<RelayID, RequestFailure> {
        let address = try address(server)
        let result: Result<RelayID, RequestFailure>
        do throws(RequestFailure) {
            result = .success(try await ControlChannelClient().identify(address, trust: RelayTrust(relay: nil), timeout: timeout))
        } catch {
            result = .failure(error)
        }
        await server.allConnectionsClosed()
        await server.stop()
        return result
    }

    @Test func challengeIdentifiesTheRelay() async throws {
        let server = try await Self.serverSending(.challenge(of: MachineBench.relay))
        #expect(try await Self.result(server) == .success(MachineBench.relay))
    }

    @Test(arguments: ["", "canary", "{}", #"{"type": "ok"}"#, #"{"type": "challenge", "relay": "me"}"#, #"{"type": "unknown"}"#])
    func otherFirstMessagesAreRejected(_ text: String) async throws {
        let failure = RequestFailure.failed(.protocolError("the relay did not say which one it is"))
        #expect(try await Self.result(try await Self.serverSending(text)) == .failure(failure))
    }

    @Test func closedOrSilentServerFailsToIdentify() async throws {
        let closing = try await TestRelayServer(.plain, .bytes([0x88, 0x02, 0x03, 0xE8]))
        #expect(try await Self.result(closing) == .failure(.failed(.hungUp)))
        #expect(try await Self.result(try await TestRelayServer(.plain, .echo), timeout: 300) == .failure(.failed(.timedOut)))
    }

    @Test func connectionThatIsClosedAsSoonAsItIsOpenCloses() async throws {
        let server = try await TestRelayServer(
            .plain,
            .webSocket(onOpen: { _ in }, onFrame: { frame, channel in if frame.opcode == .connectionClose { channel.close(promise: nil) } })
        )
        let (codes, continuation) = AsyncStream.makeStream(of: UInt16?.self)
        _ = ControlChannelClient().dial(try Self.address(server), trust: RelayTrust(relay: nil)) { event in
            switch event {
            case .opened(let connection): connection.close(code: 1000, reason: "")
            case .closed(let code): continuation.yield(code)
            default: break
            }
        }
        for await code in codes {
            #expect(code == 1000)
            break
        }
        await server.allConnectionsClosed()
        await server.stop()
    }

    @Test func cancellationClosesTheConnection() async throws {
        let (opened, continuation) = AsyncStream.makeStream(of: Void.self)
        let server = try await TestRelayServer(
            .plain,
            .webSocket(
                onOpen: { _ in continuation.yield() },
                onFrame: { frame, channel in if frame.opcode == .connectionClose { channel.close(promise: nil) } }
            )
        )
        let task = Task { try await Self.result(server) }
        for await _ in opened { break }
        task.cancel()
        #expect(try await task.value == .failure(.cancelled))
    }
}
