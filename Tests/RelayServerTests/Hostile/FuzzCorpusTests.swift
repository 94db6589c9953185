// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayServer
import Testing

/// The fuzzer's seeds and every input that once failed, through the readers as they are built for users.
@Suite struct FuzzCorpusTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../FuzzTesting")
        .standardizedFileURL

    private static var inputs: [[UInt8]] {
        get throws {
            try ["Corpus", "FailCases"].flatMap { kind in
                let folder = folder.appending(path: "\(kind)/FuzzWebSocket")
                let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
                return try names.sorted().map { [UInt8](try Data(contentsOf: folder.appending(path: $0)).dropFirst()) }
            }
        }
    }

    @Test func corpusIsParsedOrRejectedOnAControlChannel() throws {
        var events = 0
        for bytes in try Self.inputs {
            var reader = WebSocketReader(maximumMessageBytes: 4_096)
            for byte in bytes {
                reader.append(ByteBuffer(integer: byte))
                while (try? reader.next()) != nil { events += 1 }
            }
        }
        #expect(events > 0)
    }

    @Test func corpusIsParsedOrRejectedInATunnel() throws {
        var events = 0
        for bytes in try Self.inputs {
            var (reader, input, payload) = (TunnelFrameReader(), ByteBuffer(bytes: bytes), ByteBuffer())
            while (try? reader.next(&input, payload: &payload)) != nil { events += 1 }
            #expect(payload.readableBytes <= bytes.count)
        }
        #expect(events > 0)
    }

    /// Writes the seeds again: `DEVICE_RELAY_WRITE_CORPUS=1 swift test --filter RelayServerTests.FuzzCorpusTests`. One of each outcome in
    /// each section of RFC 6455; the first byte is the cut.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_WRITE_CORPUS"] != nil, "only when the seeds are wanted anew"))
    func writeSeeds() throws {
        let folder = Self.folder.appending(path: "Corpus/FuzzWebSocket")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        for example in WebSocketCase.all where example.bytes.count < 1_024 {
            let outcome =
                switch example.outcome {
                case .closed(let code): code.map { "\($0)" } ?? "closed"
                case .pong: "alive"
                }
            try Data([7] + example.bytes).write(to: folder.appending(path: "\(example.section)-\(outcome)"))
        }
    }
}
