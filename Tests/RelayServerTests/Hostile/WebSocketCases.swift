// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

/// What a client may and may not send (RFC 6455), and what comes of it.
struct WebSocketCase: Sendable, CustomTestStringConvertible {
    enum Outcome: Hashable, Sendable {
        /// The relay closes with this code.
        case closed(UInt16?)
        /// It answers with this pong, and the channel lives.
        case pong([UInt8])
    }

    /// Of RFC 6455.
    let section: String
    let name: String
    let bytes: [UInt8]
    /// On the control channel, before and after welcome.
    let outcome: Outcome
    /// On a tunnel's WebSocket; `nil` where a tunnel has its own rules.
    let inTunnel: Outcome?

    var testDescription: String { "§\(section) \(name)" }

    /// What ends the channel.
    static var violations: [WebSocketCase] { all.filter { if case .closed = $0.outcome { true } else { false } } }

    private static func frame(_ opcode: UInt8, _ payload: [UInt8] = [], isFinal: Bool = true, rsv: UInt8 = 0) -> [UInt8] {
        TestWebSocket.frame(opcode: opcode, payload, isFinal: isFinal, rsv: rsv)
    }

    private static func frame(_ opcode: UInt8, _ text: String, isFinal: Bool = true) -> [UInt8] {
        frame(opcode, Array(text.utf8), isFinal: isFinal)
    }

    /// - Parameter inTunnel: the same as outside if not given.
    private static func violation(
        _ section: String,
        _ name: String,
        _ code: UInt16,
        inTunnel: UInt16? = nil,
        _ bytes: [UInt8]
    ) -> WebSocketCase {
        WebSocketCase(section: section, name: name, bytes: bytes, outcome: .closed(code), inTunnel: .closed(inTunnel ?? code))
    }

    /// Of the control channel alone.
    private static func closing(_ section: String, _ name: String, _ code: UInt16, _ bytes: [UInt8]) -> WebSocketCase {
        WebSocketCase(section: section, name: name, bytes: bytes, outcome: .closed(code), inTunnel: nil)
    }

    /// A ping behind it is answered.
    private static func harmless(_ section: String, _ name: String, isInTunnel: Bool = true, _ bytes: [UInt8]) -> WebSocketCase {
        let alive = Outcome.pong([0xA1])
        return WebSocketCase(
            section: section,
            name: name,
            bytes: bytes + frame(9, [0xA1]),
            outcome: alive,
            inTunnel: isInTunnel ? alive : nil
        )
    }

    private static let masking: [WebSocketCase] = [
        violation("5.1", "unmasked text", 1002, TestWebSocket.frame(opcode: 1, Array("{}".utf8), isMasked: false)),
        violation("5.1", "unmasked ping", 1002, TestWebSocket.frame(opcode: 9, [], isMasked: false)),
        violation("5.1", "unmasked close", 1002, TestWebSocket.frame(opcode: 8, [0x03, 0xE8], isMasked: false)),
        WebSocketCase(section: "5.3", name: "a mask of zeros", bytes: [0x89, 0x80, 0, 0, 0, 0], outcome: .pong([]), inTunnel: .pong([])),
    ]

    private static let framing: [WebSocketCase] =
        [1, 2, 4, 3, 7].map { violation("5.2", "reserved bits \($0)", 1002, frame(1, Array("{}".utf8), rsv: $0)) }
        + [9, 10, 8].map { violation("5.2", "a reserved bit in opcode \($0)", 1002, frame($0, [0x03, 0xE8], rsv: 4)) }
        + ([3, 4, 5, 6, 7, 11, 12, 13, 14, 15] as [UInt8]).map { violation("5.2", "opcode \($0)", 1002, frame($0)) }
        + [
            violation("5.2", "a long form of a short length", 1002, [0x81, 0xFE, 0, 5, 1, 2, 3, 4, 0, 0, 0, 0, 0]),
            violation("5.2", "16 bits for a length of 125", 1002, [0x81, 0xFE, 0, 125]),
            violation("5.2", "64 bits for a length of one", 1002, [0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4]),
            violation("5.2", "64 bits for a length of 65535", 1002, [0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]),
            closing("5.2", "a length of 64 bits", 1009, [0x81, 0xFF] + Array(repeating: 0xFF, count: 8)),
            closing("5.2", "the longest length that there is", 1009, [0x81, 0xFF, 0x7F] + Array(repeating: 0xFF, count: 7)),
            harmless("5.2", "a length of 126", isInTunnel: false, frame(1, padded(126))),
            harmless("5.2", "a length of 127", isInTunnel: false, frame(1, padded(127))),
        ]

    private static let fragments: [WebSocketCase] = [
        violation("5.4", "a continuation of nothing", 1002, frame(0)),
        violation("5.4", "a continuation of nothing, with more to come", 1002, frame(0, [], isFinal: false)),
        closing("5.4", "text within text", 1002, frame(1, "{", isFinal: false) + frame(1, "}")),
        closing("5.4", "the beginning of text within text", 1002, frame(1, "{", isFinal: false) + frame(1, "}", isFinal: false)),
        closing("5.4", "a continuation behind the end", 1002, frame(1, "{\"type\":", isFinal: false) + frame(0, "\"a\"}") + frame(0)),
        harmless("5.4", "fragments", isInTunnel: false, frame(1, "{\"type\":", isFinal: false) + frame(0, "\"a\"}")),
        harmless(
            "5.4",
            "empty fragments",
            isInTunnel: false,
            frame(1, "", isFinal: false) + frame(0, "", isFinal: false) + frame(0, "{\"type\":\"a\"}", isFinal: false) + frame(0)
        ),
        harmless(
            "5.4",
            "each byte a fragment, with pongs between them",
            isInTunnel: false,
            frame(1, "", isFinal: false)
                + Array(#"{"type":"a"}"#.utf8).flatMap { frame(0, [$0], isFinal: false) + frame(10, [$0]) } + frame(0)
        ),
        WebSocketCase(
            section: "5.4",
            name: "a ping within text",
            bytes: frame(1, "{", isFinal: false) + frame(9, [9]),
            outcome: .pong([9]),
            inTunnel: nil
        ),
    ]

    private static let control: [WebSocketCase] =
        [9, 10, 8].flatMap { opcode in
            [
                violation("5.5", "opcode \(opcode) with 126 bytes", 1002, frame(opcode, Array(repeating: 0x03, count: 126))),
                violation("5.5", "opcode \(opcode) with 70000 bytes announced", 1002, [0x80 | opcode, 0xFF, 0, 0, 0, 0, 0, 1, 0x11, 0x70]),
                violation("5.5", "opcode \(opcode) in fragments", 1002, frame(opcode, [], isFinal: false)),
            ]
        } + [
            WebSocketCase(section: "5.5.2", name: "an empty ping", bytes: frame(9), outcome: .pong([]), inTunnel: .pong([])),
            WebSocketCase(section: "5.5.2", name: "a ping of 125 bytes", bytes: frame(9, ff), outcome: .pong(ff), inTunnel: .pong(ff)),
            harmless("5.5.3", "a pong that nobody asked for", frame(10, [1, 2, 3])),
        ]

    private static let ff = [UInt8](repeating: 0xFF, count: 125)

    private static let closes: [WebSocketCase] =
        [
            closing("5.5.1", "no code", 1000, frame(8)),
            violation("5.5.1", "half a code", 1002, frame(8, [3])),
            closing("5.5.1", "a reason of 123 bytes", 1000, frame(8, [0x03, 0xE8] + Array(repeating: 0x61, count: 123))),
            closing("5.5.1", "data behind the end", 1000, frame(8, [0x03, 0xE8]) + frame(1, "{}") + frame(3)),
            violation("5.5.1", "a reason that is not UTF-8", 1007, frame(8, [0x03, 0xE8, 0xFF])),
            violation("5.5.1", "a reason that ends within a character", 1007, frame(8, [0x03, 0xE8, 0xE2, 0x82])),
        ]
        + ([1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999] as [UInt16]).map {
            closing("7.4.2", "code \($0)", $0, frame(8, [UInt8($0 >> 8), UInt8($0 & 0xFF)]))
        }
        + ([0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] as [UInt16]).map {
            violation("7.4", "code \($0)", 1002, frame(8, [UInt8($0 >> 8), UInt8($0 & 0xFF)]))
        }

    private static let kinds: [WebSocketCase] = [
        WebSocketCase(section: "5.6", name: "binary", bytes: frame(2, [1]), outcome: .closed(1003), inTunnel: nil),
        WebSocketCase(section: "5.6", name: "binary fragment", bytes: frame(2, [], isFinal: false), outcome: .closed(1003), inTunnel: nil),
        WebSocketCase(
            section: "5.6",
            name: "text",
            bytes: frame(1, "{\"type\":\"a\"}") + frame(9),
            outcome: .pong([]),
            inTunnel: .closed(1003)
        ),
    ]

    /// Text that is none, within a string of a message.
    private static let encoding: [WebSocketCase] = {
        let wrong: [(String, [UInt8])] = [
            ("a byte that there is not", [0xFF]), ("a continuation alone", [0x80]), ("a character in too many bytes", [0xC0, 0xAF]),
            ("zero in three bytes", [0xE0, 0x80, 0x80]), ("half a surrogate", [0xED, 0xA0, 0x80]),
            ("a surrogate pair", [0xED, 0xA0, 0xBD, 0xED, 0xB8, 0x80]), ("beyond the last character", [0xF4, 0x90, 0x80, 0x80]),
            ("five bytes", [0xF8, 0x88, 0x80, 0x80, 0x80]), ("a character that ends too early", [0xE2, 0x82]),
        ]
        let (head, tail) = (Array(#"{"type":"a","x":""#.utf8), Array(#""}"#.utf8))
        return wrong.flatMap { name, bytes in
            [
                closing("8.1", name, 1007, frame(1, head + bytes + tail)),
                closing(
                    "8.1",
                    name + ", in fragments",
                    1007,
                    frame(1, head, isFinal: false) + bytes.flatMap { frame(0, [$0], isFinal: false) } + frame(0, tail)
                ),
            ]
        } + [
            closing("8.1", "a message of nothing else", 1007, frame(1, [0xFF, 0xFE])),
            harmless(
                "8.1",
                "a character over two fragments",
                isInTunnel: false,
                frame(1, head + [0xF0, 0x9F], isFinal: false) + frame(0, [0x98, 0x80] + tail)
            ),
        ]
    }()

    /// A message of so many bytes that asks for nothing.
    private static func padded(_ count: Int) -> [UInt8] {
        let text = Array(#"{"type":"a"}"#.utf8)
        return text + Array(repeating: 0x20, count: count - text.count)
    }

    static let all = masking + framing + fragments + control + closes + kinds + encoding
}
