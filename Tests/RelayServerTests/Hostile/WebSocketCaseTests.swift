// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import RelayProtocol
import RelayTesting
import Testing

/// RFC 6455, section by section, against a running relay: what a client sends whole, and byte by byte.
@Suite(.timeLimit(.minutes(10))) struct WebSocketCaseTests {
    /// What the relay says to it, up to a pong or a close.
    private static func outcome(of bytes: [UInt8], on client: RawWebSocket, isWhole: Bool) -> WebSocketCase.Outcome {
        if isWhole { client.socket.send(bytes) } else { for byte in bytes { client.socket.send([byte]) } }
        while let (opcode, payload) = try? client.frame() {
            if opcode == 10 { return .pong(payload) }
            if opcode == 8 { return .closed(payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : nil) }
        }
        return .closed(nil)
    }

    private func relay() async throws -> (RelaydProcess, phone: WireEndpoint, pc: WireEndpoint) {
        let relayd = try await RelaydProcess(arguments: ["--limit", "tunnelOpensPerSecond=10000"])
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let phone = try await Victim.endpoint("Phone", of: "Anna", at: relayd)
        return (relayd, phone, try await Victim.endpoint("PC", of: "Anna", at: relayd))
    }

    @Test(arguments: [true, false])
    func onTheControlChannel(isWhole: Bool) async throws {
        let (relayd, phone, _) = try await relay()
        let port = relayd.port
        let party = Party(phone)
        let differences = try await onThread {
            try WebSocketCase.all.flatMap { example in
                try [false, true].compactMap { isWelcome -> String? in
                    let client = try RawWebSocket(port: port)
                    if isWelcome { try client.greet(as: party.endpoint, role: .client) }
                    let outcome = Self.outcome(of: example.bytes, on: client, isWhole: isWhole)
                    return outcome == example.outcome ? nil : "\(example.testDescription): \(outcome), not \(example.outcome)"
                }
            }
        }
        #expect(differences.isEmpty)
        #expect(try await relayd.stop() == 0)
    }

    @Test(arguments: [true, false])
    func onATunnel(isWhole: Bool) async throws {
        let (relayd, phone, pc) = try await relay()
        let port = relayd.port
        let (one, other) = (Party(phone), Party(pc))
        let differences = try await onThread {
            let (opener, target) = (try RawWebSocket(port: port), try RawWebSocket(port: port))
            try opener.greet(as: one.endpoint)
            try target.greet(as: other.endpoint)
            return try WebSocketCase.all.compactMap { example -> String? in
                guard let expected = example.inTunnel else { return nil }
                let (client, plain) = try RawWebSocket.tunnel(from: opener, to: target, target: other.endpoint.id, port: port)
                let outcome = withExtendedLifetime(plain) { Self.outcome(of: example.bytes, on: client, isWhole: isWhole) }
                return outcome == expected ? nil : "\(example.testDescription): \(outcome), not \(expected)"
            }
        }
        #expect(differences.isEmpty)
        #expect(try await relayd.stop() == 0)
    }

    /// An endpoint that one thread uses.
    private struct Party: @unchecked Sendable {
        let endpoint: WireEndpoint
        init(_ endpoint: WireEndpoint) { self.endpoint = endpoint }
    }
}

extension RawWebSocket {
    /// A tunnel whose opener comes by WebSocket and whose target by plain TCP.
    fileprivate static func tunnel(
        from opener: RawWebSocket,
        to target: RawWebSocket,
        target id: EndpointID,
        port: Int
    ) throws -> (RawWebSocket, RawSocket) {
        let (ready, offer) = try RawTunnel.entrances(from: opener, to: target, target: id)
        guard let plain = RawSocket(port: try offer.tcpPort) else { throw Broken(description: "no tunnel") }
        plain.send(TunnelPreface(tunnel: offer.tunnel, token: offer.token).bytes)
        let fields = [
            "Sec-WebSocket-Protocol": "device-relay.tunnel.v1",
            "Authorization": "Tunnel \(Base64.url.encode(ready.token.exposed.bytes))",
        ]
        return (try RawWebSocket(port: port, path: "/v1/tunnels/\(ready.tunnel)", fields: fields), plain)
    }
}
#endif
