// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import NIOCore
import RelayProtocol

/// A control channel's client on a blocking socket.
final class RawWebSocket {
    struct Broken: Error, CustomStringConvertible { var description: String }

    let socket: RawSocket
    /// Called about once a second while an answer is awaited.
    var whileWaiting: () -> Void = {}
    /// How many seconds an answer may take before it counts as missing.
    private let patience: Int
    private var unread: [UInt8] = []
    private var frames: [(opcode: UInt8, payload: [UInt8])] = []
    private var ref = RequestRef.first

    /// Upgrades.
    init(
        port: Int,
        from source: String = "127.0.0.1",
        path: String = "/v1/connect",
        fields: [String: String?] = [:],
        isSmall: Bool = false,
        patience: Int = 60
    ) throws {
        self.patience = patience
        guard let socket = RawSocket(port: port, from: source, isSmall: isSmall) else { throw Broken(description: "not connected") }
        self.socket = socket
        socket.send(TestWebSocket.request(host: "127.0.0.1:\(port)", path: path, fields: fields))
        while true {
            if let end = unread.firstRange(of: Array("\r\n\r\n".utf8)) {
                guard unread.starts(with: Array("HTTP/1.1 101".utf8)) else {
                    throw Broken(description: String(decoding: unread.prefix(40), as: UTF8.self))
                }
                unread.removeFirst(end.upperBound)
                try parse()
                return
            }
            unread += try receive()
        }
    }

    private func receive() throws -> [UInt8] {
        var seconds = 0
        while !socket.isReadable(within: 1_000) {
            seconds += 1
            guard seconds < patience else { throw Broken(description: "no answer") }
            whileWaiting()
        }
        guard let bytes = socket.receive() else { throw Broken(description: "closed") }
        return bytes
    }

    /// Takes the complete frames of what was read; pings are answered.
    private func parse() throws {
        while let (opcode, payload) = takeFrame() {
            if opcode == 9 { try send(opcode: 10, payload) } else { frames.append((opcode, payload)) }
        }
    }

    /// Reads what has come without waiting for more. The relay gives up a client that answers no ping for 75 s.
    func answerPings() throws {
        unread += socket.receiveNow()
        try parse()
    }

    func send(opcode: UInt8 = 1, _ payload: [UInt8]) throws {
        guard socket.send(TestWebSocket.frame(opcode: opcode, payload)) else { throw Broken(description: "closed") }
    }

    func send(_ message: EndpointMessage) throws { try send(Array(try message.encode().readableBytesView)) }

    /// The next frame that the relay sends and that is no ping.
    func frame() throws -> (opcode: UInt8, payload: [UInt8]) {
        while frames.isEmpty {
            unread += try receive()
            try parse()
        }
        return frames.removeFirst()
    }

    private func takeFrame() -> (UInt8, [UInt8])? {
        guard unread.count >= 2 else { return nil }
        let extra = unread[1] == 126 ? 2 : unread[1] == 127 ? 8 : 0
        guard unread.count >= 2 + extra else { return nil }
        let length = extra == 0 ? Int(unread[1]) : unread[2..<2 + extra].reduce(0) { $0 << 8 | Int($1) }
        guard unread.count >= 2 + extra + length else { return nil }
        let payload = Array(unread[2 + extra..<2 + extra + length])
        defer { unread.removeFirst(2 + extra + length) }
        return (unread[0] & 0x0F, payload)
    }

    func message() throws -> RelayMessage {
        while true {
            let (opcode, payload) = try frame()
            guard opcode == 1 else {
                throw Broken(description: "opcode \(opcode): \(String(decoding: payload.dropFirst(2), as: UTF8.self))")
            }
            if let message = try RelayMessage.decode(from: ByteBuffer(bytes: payload), limits: Limits()) { return message }
        }
    }

    /// The code that the relay closes with; `nil` if it says none.
    func closeCode() -> UInt16? {
        while let (opcode, payload) = try? frame() {
            if opcode == 8 { return payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : 1005 }
        }
        return nil
    }

    /// Greets as an endpoint that has joined.
    func greet(as endpoint: WireEndpoint, role: EndpointMessage.Hello.Role = .host) throws {
        guard case .challenge(let challenge) = try message() else { throw Broken(description: "no challenge") }
        try send(try endpoint.hello(to: challenge, role: role))
        let answer = try message()
        guard case .welcome = answer else { throw Broken(description: "\(answer)") }
    }

    /// Asks, and passes over what is said before the answer.
    func ask(_ make: (RequestRef) -> EndpointMessage) throws -> RelayMessage {
        ref = ref.next
        try send(make(ref))
        while true {
            let answer = try message()
            if answer.ref == ref { return answer }
        }
    }

    func event<Event>(_ pick: (RelayMessage) -> Event?) throws -> Event {
        while true {
            if let event = pick(try message()) { return event }
        }
    }
}

/// Both ends of a tunnel over plain TCP.
struct RawTunnel {
    let opener: RawSocket
    let target: RawSocket
    let port: Int

    init(from phone: RawWebSocket, to pc: RawWebSocket, target: EndpointID, address: String) throws {
        let (ready, offer) = try Self.entrances(from: phone, to: pc, target: target)
        port = try ready.tcpPort
        let sockets = try [ready, offer].map { entrance in
            guard let socket = RawSocket(port: try entrance.tcpPort, from: address) else {
                throw RawWebSocket.Broken(description: "no tunnel")
            }
            socket.send(TunnelPreface(tunnel: entrance.tunnel, token: entrance.token).bytes)
            return socket
        }
        (opener, self.target) = (sockets[0], sockets[1])
        for socket in sockets {
            guard socket.receive(upTo: 1) == [TunnelStatus.paired.rawValue] else { throw RawWebSocket.Broken(description: "not paired") }
        }
    }

    /// Both sides' ways into a new tunnel.
    static func entrances(from phone: RawWebSocket, to pc: RawWebSocket, target: EndpointID) throws -> (TunnelEntrance, TunnelEntrance) {
        let answer = try phone.ask { .tunnelOpen(.init(ref: $0, target: target, timeout: 120_000)) }
        guard case .ok = answer else { throw RawWebSocket.Broken(description: "\(answer)") }
        return (
            try phone.event { if case .tunnelReady(let ready) = $0 { ready.entrance } else { nil } },
            try pc.event { if case .tunnelOffer(let offer) = $0 { offer.entrance } else { nil } }
        )
    }

    func close() {
        opener.close()
        target.close()
    }

    /// There and back.
    func trip(_ bytes: [UInt8]) throws {
        for (one, other) in [(opener, target), (target, opener)] {
            one.send(bytes)
            var count = 0
            while count < bytes.count {
                guard let received = other.receive() else { throw RawWebSocket.Broken(description: "the tunnel broke") }
                count += received.count
            }
        }
    }
}
#endif
