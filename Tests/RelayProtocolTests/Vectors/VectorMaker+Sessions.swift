// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Testing

@testable import RelayProtocol

extension VectorMaker {
    func sessions() throws -> SessionVectors {
        let (one, two) = (SessionConnectionID(1), SessionConnectionID(2))
        var settings = SessionSettings()
        settings.features = ["streams"]
        settings.messageBytes = 1 << 20
        let message = ByteBuffer(bytes: try (["Type": "list"] as ValueSet).encodedBytes())
        let opening = SessionOpening(
            serviceName: "photos",
            appID: "com.example.photos",
            callerAppID: "com.example.viewer",
            timeLeft: .seconds(30)
        )
        var moving = SessionSettings()
        moving.features = ["move"]
        moving.session = SessionID(bytes: Array(0..<16))
        moving.move = SessionMove(number: 2, received: 300)
        let frames: [(String, SessionFrame)] = [
            ("settings", SessionFrame(.settings(settings))),
            ("settings of a move", SessionFrame(.settings(moving))),
            ("open", SessionFrame(.open(opening), connection: one)),
            (
                "open by the server, without what may be left out",
                SessionFrame(.open(SessionOpening(serviceName: "photos")), connection: two)
            ),
            ("opened", SessionFrame(.opened, connection: one)),
            ("refused", SessionFrame(.refused(SessionRejection(.notAuthorized, "ask the owner")), connection: one)),
            ("request", SessionFrame(.request(.inline(message), timeLeft: .milliseconds(500)), connection: one, number: 1)),
            ("request without metadata", SessionFrame(.request(.inline(message), timeLeft: nil), connection: one, number: 2)),
            ("announced request", SessionFrame(.request(.announced(32_769), timeLeft: .seconds(4_294_967)), connection: one, number: .max)),
            ("response", SessionFrame(.response(.inline(message)), connection: one, number: 1)),
            ("announced response", SessionFrame(.response(.announced(16 << 20)), connection: one, number: 2)),
            ("error", SessionFrame(.error(SessionFailure(.failure, "no disk ☹")), connection: one, number: 2)),
            ("data of a request", SessionFrame(.data(message, of: .request, isLast: false), connection: one, number: 2)),
            ("last data of a request", SessionFrame(.data(message, of: .request, isLast: true), connection: one, number: 2)),
            ("last data of a response", SessionFrame(.data(message, of: .response, isLast: true), connection: one, number: 2)),
            ("grant of a request", SessionFrame(.grant(.request), connection: one, number: 2)),
            ("grant of a response", SessionFrame(.grant(.response), connection: one, number: 2)),
            ("cancel", SessionFrame(.cancel, connection: one, number: 2)),
            ("window", SessionFrame(.window(65_552), connection: one)),
            ("ping", SessionFrame(.ping(1))), ("pong", SessionFrame(.pong(.max))),
            ("ack", SessionFrame(.ack(65_536))), ("moved", SessionFrame(.moved(.max))),
            ("close", SessionFrame(.close(SessionClosure(.completed)), connection: one)),
            ("no new connections", SessionFrame(.goaway(SessionGoAway(lastConnection: two)))),
            ("the end", SessionFrame(.goaway(SessionGoAway(lastConnection: one, code: 9, message: "unexpectedFrame")))),
        ]
        let tunnel = try #require(TunnelID("00112233445566778899aabbccddeeff"))
        let preface = TunnelPreface(tunnel: tunnel, token: Secret(Blob(Array(0..<32))))
        return SessionVectors(
            frames: frames.map { vector($0, $1) },
            streams: try streams(),
            prefaces: [.init(tunnel: tunnel.description, token: hex(preface.token.exposed.bytes), bytes: hex(preface.bytes))]
        )
    }

    private func vector(_ name: String, _ frame: SessionFrame) -> SessionVectors.Frame {
        var vector = SessionVectors.Frame(
            name: name,
            type: frame.payload.type.rawValue,
            typeName: "\(frame.payload.type)",
            flags: frame.payload.flags.rawValue,
            connection: frame.connection.rawValue,
            request: frame.number,
            frame: hex(Array(buffer: encodedSession([frame])))
        )
        func set(_ message: SessionFrame.Message, _ timeLeft: Duration?) {
            var map = ValueSet()
            if let timeLeft { map["deadline"] = .int(Int64(SessionDeadline.milliseconds(timeLeft))) }
            switch message {
            case .inline(let bytes): vector.message = hex(Array(buffer: bytes))
            case .announced(let length): map["length"] = .int(Int64(length))
            }
            if !map.isEmpty { vector.metadata = try? VectorJSON(map) }
        }
        func set<Code>(_ reason: SessionReason<Code>) {
            vector.code = reason.code.rawValue
            vector.text = reason.message
        }
        switch frame.payload {
        case .settings(let settings): vector.metadata = try? VectorJSON(settings.map)
        case .open(let opening): vector.metadata = try? VectorJSON(opening.map)
        case .request(let message, let timeLeft): set(message, timeLeft)
        case .response(let message): set(message, nil)
        case .refused(let rejection): set(rejection)
        case .error(let failure): set(failure)
        case .close(let closure): set(closure)
        case .data(let bytes, of: _, isLast: _): vector.message = hex(Array(buffer: bytes))
        case .window(let credit): vector.credit = credit
        case .ping(let value), .pong(let value), .ack(let value), .moved(let value):
            vector.value = hex(withUnsafeBytes(of: value.bigEndian) { Array($0) })
        case .goaway(let goaway):
            vector.lastConnection = goaway.lastConnection.rawValue
            vector.code = goaway.code
            vector.text = goaway.message
        case .opened, .grant, .cancel: break
        }
        return vector
    }

    private func streams() throws -> [SessionVectors.Stream] {
        let settings = rawSessionFrame(1, try (["version": 1] as ValueSet).encodedBytes())
        func after(_ frames: ByteBuffer...) -> ByteBuffer {
            frames.reduce(into: settings) { stream, frame in stream.writeImmutableBuffer(frame) }
        }
        func open(_ map: [UInt8], _ rest: [UInt8] = [], connection: UInt32 = 2) -> ByteBuffer {
            rawSessionFrame(2, connection: connection, [0, UInt8(truncatingIfNeeded: map.count)] + map + rest)
        }
        let photos = try (["service": "photos"] as ValueSet).encodedBytes()
        let ping = rawSessionFrame(12, Array(0..<8))
        let cases: [(String, ByteBuffer)] = [
            ("settings and a ping", after(ping)),
            (
                "settings of a later version with more in them",
                rawSessionFrame(1, try (["version": 9, "limits": ["more": 1], "more": "x"] as ValueSet).encodedBytes())
            ),
            (
                "a skipped frame before settings",
                {
                    var stream = rawSessionFrame(0x80, flags: 0xFF, connection: 9, number: 9, [1, 2, 3])
                    stream.writeImmutableBuffer(settings)
                    return stream
                }()
            ),
            ("open", after(open(photos))),
            ("a session that is not 16 bytes", rawSessionFrame(1, try (["version": 1, "session": .data([1])] as ValueSet).encodedBytes())),
            (
                "a move without a count",
                rawSessionFrame(1, try (["version": 1, "session": .data(Array(0..<16)), "move": 1] as ValueSet).encodedBytes())
            ),
            (
                "a move on the first stream of a session",
                rawSessionFrame(
                    1,
                    try (["version": 1, "session": .data(Array(0..<16)), "move": 1, "received": 0] as ValueSet).encodedBytes()
                )
            ),
            ("an ack without the feature", after(rawSessionFrame(16, Array(repeating: 0, count: 8)))),
            ("moved on the first stream of a session", after(rawSessionFrame(17, Array(repeating: 0, count: 8)))),
            ("a ping before settings", ping),
            ("settings twice", after(settings)),
            ("version 0", rawSessionFrame(1, try (["version": 0] as ValueSet).encodedBytes())),
            ("settings without a version", rawSessionFrame(1, [0xA0])),
            ("settings with a byte behind them", rawSessionFrame(1, try (["version": 1] as ValueSet).encodedBytes() + [0])),
            ("settings with the same key twice", rawSessionFrame(1, hex("a2 67 76657273696f6e 01 67 76657273696f6e 01"))),
            ("settings with keys out of order", rawSessionFrame(1, hex("a2 67 76657273696f6e 01 61 61 01"))),
            ("settings not in their shortest form", rawSessionFrame(1, hex("b801 67 76657273696f6e 01"))),
            ("a limit of 0", rawSessionFrame(1, try (["version": 1, "limits": ["messageBytes": 0]] as ValueSet).encodedBytes())),
            ("an unknown type", after(rawSessionFrame(0x12))),
            ("a skipped frame that is too large", after(rawSessionFrame(0x80, length: 65_537))),
            ("a ping that is too long", after(rawSessionFrame(12, Array(repeating: 0, count: 9)))),
            ("a ping that is too short", after(rawSessionFrame(12, Array(repeating: 0, count: 7)))),
            ("a ping on a connection", after(rawSessionFrame(12, connection: 1, Array(repeating: 0, count: 8)))),
            ("a flag that is not defined", after(rawSessionFrame(12, flags: 1, Array(repeating: 0, count: 8)))),
            ("an open with a byte behind its metadata", after(open(photos, [0]))),
            ("an open without a service", after(open([0xA0]))),
            ("an open without metadata", after(rawSessionFrame(2, connection: 2, [0, 0]))),
            ("a package that is no text", after(open(try (["service": "photos", "package": 1] as ValueSet).encodedBytes()))),
            ("an id of the receiver's", after(open(photos, connection: 1))),
            ("an id that does not grow", after(open(photos, connection: 4), open(photos, connection: 2))),
            ("a frame for an id that never was", after(rawSessionFrame(14, connection: 2, [0, 0]))),
            ("a request before opened", after(open(photos), rawSessionFrame(5, connection: 2, number: 1, [0, 0, 0xA0]))),
            ("credit of 0", after(open(photos), rawSessionFrame(11, connection: 2, [0, 0, 0, 0]))),
            (
                "an announced length that would fit",
                after(open(photos), rawSessionFrame(5, connection: 2, number: 1, hex("0009 a1 66 6c656e677468 01")))
            ),
            ("metadata that is cut short", after(rawSessionFrame(5, connection: 2, number: 1, [0, 4, 0xA0]))),
            ("text that is no UTF-8", after(rawSessionFrame(15, [0, 0, 0, 0, 0, 0, 0xFF]))),
        ]
        return cases.map { name, stream in
            let error = SessionVectors.error(of: Array(buffer: stream))
            return .init(name: name, bytes: hex(Array(buffer: stream)), error: error?.rawValue, errorName: error.map { "\($0)" })
        }
    }
}
