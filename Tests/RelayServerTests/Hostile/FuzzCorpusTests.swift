// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
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

    /// The seeds of tokens and of what issuers answer, through the rules.
    @Test func corpusOfTokensIsAcceptedOrRefused() throws {
        let trusted = TrustedIssuer(
            key: "https://issuer.example",
            urls: ["https://issuer.example"],
            audience: .exactly("relay"),
            check: .introspection { _ in throw TokenError.issuerUnavailable }
        )
        let (rules, now) = (TokenRules(issuer: trusted), Milliseconds(clamping: 1_793_000_000_000))
        var (accepted, refused) = (0, 0)
        for folder in ["Corpus/FuzzTokens", "FailCases/FuzzTokens"].map({ Self.folder.appending(path: $0) }) {
            for name in ((try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []).sorted() {
                let bytes = [UInt8](try Data(contentsOf: folder.appending(path: name)).dropFirst())
                let text = String(decoding: bytes, as: UTF8.self)
                let parsed = try? SignedJSON(parsing: text).claims(TokenClaims.self)
                let json = try? JSONValue(parsing: bytes)
                if let claims = parsed ?? json.flatMap({ try? TokenClaims(json: $0) }) {
                    do throws(TokenFault) {
                        _ = try rules.check(claims, key: nil, now: now)
                        accepted += 1
                    } catch {
                        refused += 1
                    }
                }
                let keys = json.flatMap { try? JSONWebKeySet(json: $0) }?.keys ?? []
                for key in keys { #expect(TokenKey(key)?.isValid(bytes, for: bytes, by: .es256) != true) }
                _ = try? DPoPProof(checking: text, method: "POST", urls: ["https://relay.example/auth/token"], now: now)
            }
        }
        #expect(accepted > 0 && refused > 0)
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
