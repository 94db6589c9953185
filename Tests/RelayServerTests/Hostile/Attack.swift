// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import NIOCore
import RelayProtocol

/// What a hostile client does for as long as it is let.
struct Attack: Sendable {
    let name: String
    /// It asks for work that the relay owes, as much as it can. What others wait for then is judged by its time, not beside calm.
    var asksForWork = false
    /// It uses up what those need who come to the relay meanwhile, and not only its time.
    var hindersArrivals = false
    /// Does it until the other closure says that it is enough.
    /// - Returns: how many times.
    let run: @Sendable (Field, () -> Bool) throws -> Int

    /// Where it takes place.
    struct Field: @unchecked Sendable {
        let port: Int
        let securePort: Int
        let tunnelPort: Int
        /// Endpoints of the attacker's account. Only the thread of the attack uses them.
        let eve: WireEndpoint
        let otherEve: WireEndpoint
        let mallory: WireEndpoint
        /// The code of the form that signs in, and the cookie that it fits.
        let form: (code: String, cookie: String)
        /// How many connections to hold at once.
        let crowd: Int

        /// One of the attacker's addresses.
        static func address(_ number: Int) -> String { "127.0.0.\(66 + number / 200)" }

        /// One of many.
        static func manyAddresses(_ number: Int) -> String { "127.0.\(1 + number % 200).66" }

        func welcomed(_ role: EndpointMessage.Hello.Role = .client) throws -> RawWebSocket {
            let socket = try RawWebSocket(port: port, from: Self.address(0), isSmall: true)
            try socket.greet(as: eve, role: role)
            return socket
        }
    }

    // The bombs are made before the first attack: that takes a while.
    static let all: [Attack] = [
        Attack(name: "requests byte by byte") { field, isEnough in
            sendSlowly(field.port, field.crowd, Array("GET /healthz HTTP/1.1\r\nX-Header: ".utf8) + repeated("a", 1_000), isEnough)
        },
        Attack(name: "WebSocket upgrades byte by byte") { field, isEnough in
            sendSlowly(field.port, field.crowd, Array(TestWebSocket.request(host: "127.0.0.1:\(field.port)").utf8), isEnough)
        },
        Attack(name: "frames byte by byte, before hello") { field, isEnough in
            let request = Array(TestWebSocket.request(host: "127.0.0.1:\(field.port)").utf8)
            return sendSlowly(field.port, field.crowd, opening: request, TestWebSocket.frame(opcode: 1, repeated(" ", 30_000)), isEnough)
        },
        Attack(name: "tunnel prefaces byte by byte") { field, isEnough in
            sendSlowly(field.tunnelPort, field.crowd, TunnelPreface.magic + repeated("a", 47), isEnough)
        },
        Attack(name: "TLS hellos byte by byte") { field, isEnough in sendSlowly(field.securePort, field.crowd, tlsHello, isEnough) },
        Attack(name: "connections that say nothing") { field, isEnough in
            var sockets: [RawSocket] = []
            while !isEnough() {
                // Where the file limit is: of this process, or of the relay, whose queue is full then.
                if sockets.count < field.crowd * 5,
                    let socket = RawSocket(port: field.port, from: Field.address(sockets.count), patience: 1)
                {
                    sockets.append(socket)
                } else {
                    Thread.sleep(forTimeInterval: 0.01)
                }
            }
            return sockets.count
        },
        storm("opens and closes") { field in RawSocket(port: field.port, from: Field.address(0), patience: 1)?.reset() },
        storm("opens and closes of tunnel connections") { field in
            RawSocket(port: field.tunnelPort, from: Field.address(0), patience: 1)?.reset()
        },
        storm("upgrades and closes") { field in
            try? RawWebSocket(port: field.port, from: Field.address(0)).socket.reset()
        },
        storm("TLS handshakes, left at the answer") { field in
            guard let socket = RawSocket(port: field.securePort, from: Field.address(0), patience: 1) else { return }
            socket.send(tlsHello)
            _ = socket.receive()
            socket.reset()
        },
        storm("prefaces with tokens of no tunnel") { field in
            guard let socket = RawSocket(port: field.tunnelPort, from: Field.address(0), patience: 1) else { return }
            socket.send(TunnelPreface.magic + (0..<48).map { _ in UInt8.random(in: 0...255) })
            _ = socket.receive()
            socket.reset()
        },
        storm("WebSocket violations") { field in
            guard let socket = try? RawWebSocket(port: field.port, from: Field.address(0)) else { return }
            socket.socket.send(WebSocketCase.violations.randomElement()?.bytes ?? [])
            _ = socket.closeCode()
            socket.socket.reset()
        },
        storm("JSON bombs of 32 KiB, before hello") { [bombs] field in
            guard let socket = try? RawWebSocket(port: field.port, from: Field.address(0)) else { return }
            socket.socket.send(bombs.randomElement() ?? [])
            _ = socket.closeCode()
            socket.socket.reset()
        },
        storm("hellos that are signed, without an account") { field in
            guard let socket = try? RawWebSocket(port: field.port, from: Field.address(0)) else { return }
            try? socket.greet(as: field.mallory)
            socket.socket.reset()
        },
        storm("requests for nothing, 100 at a time") { field in
            guard let socket = RawSocket(port: field.port, from: Field.address(0), patience: 1) else { return }
            socket.send(String(repeating: "GET /a HTTP/1.1\r\nHost: 127.0.0.1:\(field.port)\r\n\r\n", count: 100))
            _ = socket.receive()
            socket.reset()
        },
        storm("forms with bombs") { [proofs] field in
            guard let socket = RawSocket(port: field.port, from: Field.address(0), patience: 1) else { return }
            let form = "grant_type=refresh_token&refresh_token=" + String(repeating: "%41", count: 5_000)
            let proof = proofs.randomElement() ?? ""
            socket.send(
                "POST /auth/token HTTP/1.1\r\nHost: 127.0.0.1:\(field.port)\r\nDPoP: \(proof).\(proof).AAAA\r\n"
                    + "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \(form.utf8.count)\r\n\r\n\(form)"
            )
            _ = socket.receive()
            socket.reset()
        },
        Attack(name: "pings whose answers are not read, before hello") { field, isEnough in
            try unread(field, isEnough, frame: TestWebSocket.frame(opcode: 9, [])) {
                try RawWebSocket(port: field.port, from: Field.address(0), isSmall: true)
            }
        },
        Attack(name: "pings whose answers are not read, of an account") { field, isEnough in
            try unread(field, isEnough, frame: TestWebSocket.frame(opcode: 9, repeated("a", 125))) { try field.welcomed() }
        },
        Attack(name: "requests whose answers are not read, of an account") { field, isEnough in
            let question = Array(#"{"type":"question","ref":1}"#.utf8)
            return try unread(field, isEnough, frame: TestWebSocket.frame(opcode: 1, question)) { try field.welcomed() }
        },
        Attack(name: "acknowledgements of unknown commands in bulk, by nine channels of an account", asksForWork: true) { field, isEnough in
            let frames = (0..<2_000).map { _ in
                let statement = EndpointMessage.commandAcknowledge(.init(id: field.eve.nextCommandID()))
                return TestWebSocket.frame(opcode: 1, Array((try? statement.encode())?.readableBytesView ?? ByteBuffer().readableBytesView))
            }
            return try flood(field, isEnough, block: Array(frames.joined()))
        },
        Attack(name: "requests that read the store in bulk, by nine channels of an account", asksForWork: true) { field, isEnough in
            let frames = (1...2_000).map { number in
                TestWebSocket.frame(opcode: 1, Array(#"{"type":"unwatch","ref":\#(number)}"#.utf8))
            }
            return try flood(field, isEnough, block: Array(frames.joined()), reads: true)
        },
        Attack(name: "messages of 500 KiB, of an account") { [largeBombs] field, isEnough in
            var (count, socket) = (0, try field.welcomed())
            while !isEnough() {
                count += 1
                if !socket.socket.send(largeBombs[count % largeBombs.count]) { socket = try field.welcomed() }
            }
            return count
        },
        Attack(name: "a message of 500 KiB with pieces that have nothing and no end, of an account") { field, isEnough in
            let beginning = TestWebSocket.frame(opcode: 1, repeated("a", 500 << 10), isFinal: false)
            let pieces = Array(repeatElement(TestWebSocket.frame(opcode: 0, [], isFinal: false), count: 10_000).joined())
            var (count, socket, isBegun) = (0, try field.welcomed(), false)
            while !isEnough() {
                count += 1
                if isBegun ? socket.socket.send(pieces) : socket.socket.send(beginning) {
                    isBegun = true
                } else {
                    (socket, isBegun) = (try field.welcomed(), false)
                }
            }
            return count
        },
        Attack(name: "a tunnel that is not read") { field, isEnough in
            let (one, other) = (try field.welcomed(.host), try RawWebSocket(port: field.port, from: Field.address(1)))
            try other.greet(as: field.otherEve)
            let tunnel = try RawTunnel(from: one, to: other, target: field.otherEve.id, address: Field.address(0))
            let block = repeated("a", 1 << 20)
            var count = 0
            while !isEnough() {
                if let sent = tunnel.opener.offer(block), sent > 0 { count += 1 } else { Thread.sleep(forTimeInterval: 0.001) }
            }
            return count
        },
        Attack(name: "wrong passwords, from 200 addresses", asksForWork: true, hindersArrivals: true) { field, isEnough in
            crowded(field, isEnough) { number in
                post(
                    "/auth/login",
                    "name=\(number)&password=a+wrong+password&form_code=\(FormCoding.encode(field.form.code))",
                    to: field,
                    fields: "Cookie: relay-browser=\(field.form.cookie)\r\nOrigin: http://127.0.0.1:\(field.port)\r\n"
                )
            }
        },
        Attack(name: "registrations of clients, from 200 addresses", hindersArrivals: true) { field, isEnough in
            crowded(field, isEnough) { number in
                let client =
                    #"{"client_name":"\#(number)","redirect_uris":["http://127.0.0.1/signed-in"],"token_endpoint_auth_method":"none"}"#
                return post("/auth/register", client, type: "application/json", to: field)
            }
        },
        Attack(name: "devices that wait for a sign-in, from 200 addresses", hindersArrivals: true) { field, isEnough in
            crowded(field, isEnough) { number in
                post("/auth/device_authorization", "client_id=org.example.app\(number)&device_name=TV", to: field)
            }
        },
        Attack(name: "hellos with invented tokens about which an issuer is asked, from 200 addresses", hindersArrivals: true) {
            field,
            isEnough in
            var (count, waiting) = (0, [RawSocket]())
            while !isEnough() {
                count += 1
                guard let socket = try? RawWebSocket(port: field.port, from: Field.manyAddresses(count)) else { continue }
                field.mallory.token = "invented-\(count)-\(UInt64.random(in: 0 ... .max))"
                guard case .challenge(let challenge)? = try? socket.message() else { continue }
                try socket.send(try field.mallory.hello(to: challenge, role: .client))
                keep(socket.socket, in: &waiting)
            }
            for socket in waiting { socket.reset() }
            return count
        },
    ]

    /// Whose answers are waited for, at most.
    private static let mostWaiting = 200

    private static func keep(_ socket: RawSocket, in waiting: inout [RawSocket]) {
        waiting.append(socket)
        if waiting.count > mostWaiting { waiting.removeFirst().reset() }
    }

    /// Requests from many addresses, many at a time.
    private static func crowded(_ field: Field, _ isEnough: () -> Bool, request: (Int) -> String) -> Int {
        var (count, waiting) = (0, [RawSocket]())
        while !isEnough() {
            count += 1
            guard let socket = RawSocket(port: field.port, from: Field.manyAddresses(count), patience: 1) else { continue }
            socket.send(request(count))
            keep(socket, in: &waiting)
        }
        for socket in waiting { socket.reset() }
        return count
    }

    private static func post(
        _ path: String,
        _ body: String,
        type: String = "application/x-www-form-urlencoded",
        to field: Field,
        fields: String = ""
    ) -> String {
        "POST \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(field.port)\r\n\(fields)Content-Type: \(type)\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            + body
    }

    private static let bombs = JSONBombs.all((32 << 10) - 100).map { TestWebSocket.frame(opcode: 1, $0.bytes) }
    private static let largeBombs = JSONBombs.all(500 << 10, beginning: #""type":"noise","#).map {
        TestWebSocket.frame(opcode: 1, $0.bytes)
    }
    private static let proofs = JSONBombs.all(6_000, beginning: "").map { Base64.url.encode($0.bytes) }

    private static func repeated(_ character: Unicode.Scalar, _ count: Int) -> [UInt8] {
        Array(repeating: UInt8(ascii: character), count: count)
    }

    /// The same, again and again, as fast as one thread can.
    private static func storm(_ name: String, _ once: @escaping @Sendable (Field) throws -> Void) -> Attack {
        Attack(name: name) { field, isEnough in
            var count = 0
            while !isEnough() {
                try once(field)
                count += 1
            }
            return count
        }
    }

    /// Many connections, each of which sends a byte now and then; one that is closed comes again.
    private static func sendSlowly(
        _ port: Int,
        _ crowd: Int,
        opening: [UInt8] = [],
        _ bytes: [UInt8],
        _ isEnough: () -> Bool
    ) -> Int {
        var sockets = [(socket: RawSocket, sent: Int)?](repeating: nil, count: crowd)
        var count = 0
        while !isEnough() {
            for index in sockets.indices where !isEnough() {
                if let (socket, sent) = sockets[index], sent < bytes.count, socket.offer([bytes[sent]]) != nil {
                    sockets[index]?.sent += 1
                } else if let socket = RawSocket(port: port, from: Field.address(index), patience: 1) {
                    count += 1
                    socket.send(opening)
                    sockets[index] = (socket, 0)
                }
            }
            Thread.sleep(forTimeInterval: 0.05)
        }
        return count
    }

    /// Sends what is answered, and reads no answer; comes again when it is closed.
    private static func unread(_ field: Field, _ isEnough: () -> Bool, frame: [UInt8], _ open: () throws -> RawWebSocket) throws -> Int {
        // A whole number of frames, for as long as all of it goes.
        let block = Array(repeatElement(frame, count: 65_536 / frame.count).joined())
        var (bytes, socket, rest) = (0, try open(), block[...])
        while !isEnough() {
            guard let sent = socket.socket.offer(Array(rest)) else {
                (socket, rest) = (try open(), block[...])
                continue
            }
            bytes += sent
            rest = rest.dropFirst(sent)
            if rest.isEmpty { rest = block[...] }
            if sent == 0 { Thread.sleep(forTimeInterval: 0.001) }
        }
        return bytes / frame.count
    }

    /// Sends the same frames again and again on all channels that an endpoint may have, as fast as they are taken.
    /// - Parameter reads: whether the answers are read.
    private static func flood(_ field: Field, _ isEnough: () -> Bool, block: [UInt8], reads: Bool = false) throws -> Int {
        var channels = try (0..<9).map { number in (socket: try field.welcomed(number == 0 ? .host : .client).socket, rest: block[...]) }
        var bytes = 0
        while !isEnough() {
            var isIdle = true
            for index in channels.indices {
                if reads { channels[index].socket.discard() }
                guard let sent = channels[index].socket.offer(Array(channels[index].rest)) else {
                    channels[index] = (try field.welcomed(index == 0 ? .host : .client).socket, block[...])
                    continue
                }
                bytes += sent
                channels[index].rest = channels[index].rest.dropFirst(sent)
                if channels[index].rest.isEmpty { channels[index].rest = block[...] }
                if sent > 0 { isIdle = false }
            }
            if isIdle { Thread.sleep(forTimeInterval: 0.001) }
        }
        // Otherwise the relay serves what it has received before it sees the end.
        for channel in channels { channel.socket.reset() }
        return bytes
    }

    /// A whole `ClientHello` of TLS 1.3 (RFC 8446 §4.1.2), with a random key share.
    static let tlsHello: [UInt8] = {
        func random(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255) } }
        func sized(_ bytes: [UInt8], _ width: Int) -> [UInt8] {
            (0..<width).reversed().map { UInt8(truncatingIfNeeded: bytes.count >> ($0 * 8)) } + bytes
        }
        let extensions: [UInt8] =
            [0, 10] + sized([0, 2, 0, 0x1D], 2) + [0, 13] + sized([0, 2, 4, 3], 2) + [0, 43] + sized([2, 3, 4], 2)
            + [0, 51] + sized(sized([0, 0x1D] + sized(random(32), 2), 2), 2)
        let body = [3, 3] + random(32) + sized(random(32), 1) + sized([0x13, 1], 2) + sized([0], 1) + sized(extensions, 2)
        return [22, 3, 1] + sized([1] + sized(body, 3), 2)
    }()
}
#endif
