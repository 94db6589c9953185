// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import Testing

@testable import RelayAgent

/// How `relay watch` reads the stream of an agent, without an agent.
@Suite struct WatchStreamTests {
    private typealias Event = ServerSentEvents.Event

    private static let text =
        ": 0b1c\n\nid: a:1\nevent: device\ndata: {\"a\":1}\n\n: \n\ndata:one\r\ndata: two\r\n\r\nevent: device\n\nretry: 5\nx\ndata\n\nevent: cut\ndata: off"

    private static let items: [Event] = [
        Event(type: "device", data: "{\"a\":1}"), Event(type: "message", data: "one\ntwo"),
        Event(type: "message", data: ""),
    ]

    @Test func piecesOfAnySizeMeanTheSame() throws {
        let bytes = Array(Self.text.utf8)
        for size in 1...bytes.count {
            var (events, items) = (ServerSentEvents(), [Event]())
            for start in stride(from: 0, to: bytes.count, by: size) {
                let piece = ByteBuffer(bytes: bytes[start..<min(start + size, bytes.count)])
                items += try events.take(piece.readableBytesView)
            }
            #expect(items == Self.items, "pieces of \(size)")
        }
    }

    @Test func anyBytesAreRead() throws {
        var random = SystemRandomNumberGenerator()
        let parts: [[UInt8]] =
            ["data", "event", "id", ":", ": ", "\n", "\r", "\r\n", "\n\n", "x", "\u{0}", "\u{feff}"].map { Array($0.utf8) } + [[0xFF]]
        for _ in 0..<2_000 {
            let bytes = (0..<Int.random(in: 0..<24, using: &random)).flatMap { _ in parts.randomElement(using: &random) ?? [] }
            var (whole, pieces) = (ServerSentEvents(), ServerSentEvents())
            let one = try whole.take(ByteBuffer(bytes: bytes).readableBytesView)
            var other: [Event] = []
            for byte in bytes { other += try pieces.take(ByteBuffer(bytes: [byte]).readableBytesView) }
            #expect(one == other, "\(bytes)")
        }
    }

    /// A stream without an end of line, or without an end of its event, is not kept for ever.
    @Test(arguments: ["x", "data: xxxxxxx\n"]) func endlessEventIsRefused(unit: String) throws {
        let piece = ByteBuffer(string: String(repeating: unit, count: (1 << 20) / unit.utf8.count))
        var events = ServerSentEvents()
        #expect(throws: ServerSentEvents.TooLong.self) {
            for _ in 0..<16 { _ = try events.take(piece.readableBytesView) }
        }
    }

    private func device(_ id: String, _ status: String) throws -> DeviceResult {
        let json = """
            {"id":"\(id)","name":"TV","kind":"tv","platform":"linux","status":"\(status)","reason":"connected","wakeable":false,"apps":[],
            "new":false,"unverified":false,"local":false,"paired":false}
            """
        return try JSONText.decoder.decode(DeviceResult.self, from: Data(json.utf8))
    }

    private func kinds(_ events: [Watch.Event]) -> [String] { events.map { "\($0.event.rawValue) \($0.device?.id ?? "")" } }

    @Test func twoSourcesAreOneSequence() throws {
        let watched = WatchedDevices()
        let (first, changed) = (try device("a", "available"), try device("a", "unavailable"))
        // The stream has begun before the list was read, so either may be first.
        #expect(kinds(watched.take(Watch.Event(.updated, first))) == ["added a"])
        #expect(watched.take(Watch.Event(.added, first)).isEmpty)
        #expect(kinds(watched.take(Watch.Event(.added, try device("b", "available")))) == ["added b"])
        #expect(kinds(watched.take(Watch.Event(.enumerationCompleted))) == ["enumerationCompleted "])
        #expect(kinds(watched.take(Watch.Event(.updated, changed))) == ["updated a"])
        #expect(watched.take(Watch.Event(.updated, changed)).isEmpty)
        #expect(watched.take(Watch.Event(.removed, try device("c", "available"))).isEmpty)
        watched.begin()
        #expect(watched.take(Watch.Event(.added, changed)).isEmpty)
        #expect(kinds(watched.take(Watch.Event(.enumerationCompleted))) == ["removed b", "enumerationCompleted "])
        #expect(kinds(watched.take(Watch.Event(.removed, changed))) == ["removed a"])
    }
}
