// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayServer

/// A control channel's other end, as wrong as a test wants it.
struct TestWebSocket {
    enum Frame: Hashable {
        case text([UInt8])
        case ping
        case pong([UInt8])
        case close(code: UInt16, reason: String)
        /// The connection ended without a close frame.
        case end
    }

    struct Unexpected: Error { var frame: Frame }
    struct NotUpgraded: Error { var answer: String }

    let socket: TestSocket

    static func request(host: String, path: String = "/v1/connect", fields: [String: String?] = [:], method: String = "GET") -> String {
        var all: [String: String?] = [
            "Host": host, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "device-relay.v1",
        ]
        for (name, value) in fields { all.updateValue(value, forKey: name) }
        let lines = all.compactMap { name, value in value.map { "\(name): \($0)\r\n" } }.sorted().joined()
        return "\(method) \(path) HTTP/1.1\r\n\(lines)\r\n"
    }

    /// Upgrades; the challenge waits to be read.
    static func open(_ relay: TestRelay, isReading: Bool = true) async throws -> TestWebSocket {
        try await open(try await relay.connect(isReading: isReading), host: relay.host, isReading: isReading)
    }

    static func open(_ socket: TestSocket, host: String, isReading: Bool = true) async throws -> TestWebSocket {
        try await socket.send(request(host: host))
        guard isReading else { return TestWebSocket(socket: socket) }
        let answer = await socket.answer()
        guard answer.hasPrefix("HTTP/1.1 101") else { throw NotUpgraded(answer: answer) }
        return TestWebSocket(socket: socket)
    }

    /// Opens and greets.
    static func welcomed(
        _ relay: TestRelay,
        endpoint: TransportTestEndpoint = TransportTestEndpoint(),
        token: String = FixedTokens.good
    ) async throws -> TestWebSocket {
        let socket = try await open(relay)
        let challenge = try await socket.challenge()
        try await socket.send(
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, token: token)
        )
        let message = try await socket.message(isWelcome: false)
        guard case .welcome = message else { throw NotUpgraded(answer: "\(message)") }
        return socket
    }

    func challenge() async throws -> RelayMessage.Challenge {
        let message = try await message(isWelcome: false)
        guard case .challenge(let challenge) = message else { throw NotUpgraded(answer: "\(message)") }
        return challenge
    }

    func send(_ message: EndpointMessage) async throws {
        try await send(opcode: 1, Array(try message.encode().readableBytesView))
    }

    func send(text: String) async throws { try await send(opcode: 1, Array(text.utf8)) }

    func send(opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, isMasked: Bool = true, rsv: UInt8 = 0) async throws {
        try await socket.send(Self.frame(opcode: opcode, payload, isFinal: isFinal, isMasked: isMasked, rsv: rsv))
    }

    static func frame(opcode: UInt8, _ payload: [UInt8], isFinal: Bool = true, isMasked: Bool = true, rsv: UInt8 = 0) -> [UInt8] {
        var bytes: [UInt8] = [(isFinal ? 0x80 : 0) | rsv << 4 | opcode]
        let maskBit: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ...125: bytes.append(maskBit | UInt8(payload.count))
        case ...0xFFFF: bytes += [maskBit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [maskBit | 127] + (0..<8).reversed().map { UInt8(truncatingIfNeeded: payload.count >> ($0 * 8)) }
        }
        guard isMasked else { return bytes + payload }
        let mask: [UInt8] = [1, 2, 3, 4]
        return bytes + mask + payload.enumerated().map { $1 ^ mask[$0 & 3] }
    }

    /// The next frame that the relay sends.
    func frame() async -> Frame {
        let bytes = await socket.bytes { Self.length($0) != nil }
        guard let (header, length) = Self.length(bytes) else { return .end }
        socket.drop(header + length)
        let payload = Array(bytes[header..<header + length])
        switch bytes[0] & 0x0F {
        case 1: return .text(payload)
        case 9: return .ping
        case 10: return .pong(payload)
        default:
            guard payload.count >= 2 else { return .close(code: 1005, reason: "") }
            return .close(code: UInt16(payload[0]) << 8 | UInt16(payload[1]), reason: String(decoding: payload.dropFirst(2), as: UTF8.self))
        }
    }

    func message(isWelcome: Bool = true) async throws -> RelayMessage {
        while true {
            switch await frame() {
            case .text(let bytes):
                if let message = try RelayMessage.decode(from: ByteBuffer(bytes: bytes), limits: Limits()) { return message }
            case .ping: try await send(opcode: 10, [])
            case let frame: throw Unexpected(frame: frame)
            }
        }
    }

    /// The code the relay closes with, after any other messages.
    func closeCode() async -> UInt16? {
        while true {
            switch await frame() {
            case .close(let code, _): return code
            case .end: return nil
            default: continue
            }
        }
    }

    /// Header and payload length of a whole frame.
    private static func length(_ bytes: [UInt8]) -> (Int, Int)? {
        guard bytes.count >= 2 else { return nil }
        let short = Int(bytes[1] & 0x7F)
        let extra = short == 126 ? 2 : short == 127 ? 8 : 0
        guard bytes.count >= 2 + extra else { return nil }
        let length = extra == 0 ? short : bytes[2..<2 + extra].reduce(0) { $0 << 8 | Int($1) }
        return bytes.count >= 2 + extra + length ? (2 + extra, length) : nil
    }
}
