// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer
import Synchronization
import Testing

/// Keeps every line that is logged.
private struct KeepingLogHandler: LogHandler {
    let lines: Lines
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.all.withLock { $0.append("\(event.message) \(metadata) \(event.metadata ?? [:])") }
    }
}

@Suite(.timeLimit(.minutes(10))) struct SecrecyTests {
    @Test func logsMetricsAndCloseReasonsContainNoSecrets() async throws {
        let canary = "canary-5f3d9c"
        let lines = KeepingLogHandler.Lines()
        let logger = Logger(label: "test") { _ in KeepingLogHandler(lines: lines) }
        try await TestRelay.with(logger: logger) { relay in
            let endpoint = TransportTestEndpoint()
            let client = try await TestWebSocket.open(relay)
            let challenge = try await client.challenge()
            try await client.send(
                try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, token: canary)
            )
            guard case .rejected(let rejected) = try await client.message(isWelcome: false) else {
                Issue.record("not rejected")
                return
            }
            #expect(!"\(rejected)".contains(canary))
            guard case .close(_, let reason) = await client.frame() else {
                Issue.record("not closed")
                return
            }
            #expect(reason == "tokenInvalid")

            let known = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            try await known.send(text: #"{"type":"\#(canary)","ref":"\#(canary)","\#(canary)":"\#(canary)"#)
            guard case .close(1007, let malformed) = await known.frame() else {
                Issue.record("not closed")
                return
            }
            #expect(!malformed.contains(canary))

            let request = try await relay.connect()
            try await request.send(
                "GET /\(canary)?token=\(canary) HTTP/1.1\r\nHost: \(relay.host)\r\nAuthorization: Bearer \(canary)\r\n\r\n"
            )
            let answer = await request.answer()
            #expect(answer.hasPrefix("HTTP/1.1 404"))
            #expect(!answer.contains(canary))
            await request.close()
            #expect(!relay.metrics.text.contains(canary))
            #expect(relay.metrics.text.contains(#"relay_hellos_rejected_total{code="tokenInvalid"} 1"#))
            #expect(relay.metrics.text.contains(#"relay_control_closed_total{code="1007"} 1"#))
        }
        let logged = lines.all.withLock { $0 }
        #expect(logged.contains { $0.contains("control channel closes") })
        #expect(!logged.contains { $0.contains(canary) })
    }
}
