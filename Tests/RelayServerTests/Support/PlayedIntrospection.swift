// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

@testable import RelayServer

/// An issuer that answers about tokens, or holds its answers back.
final class PlayedIntrospection: Sendable {
    private struct State {
        var asked: [String] = []
        var isHeld = false
        var isDown = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    let now = Mutex<Int64>(1_700_000_000_000)

    var asked: [String] { state.withLock { $0.asked } }
    var waiting: Int { state.withLock { $0.waiting.count } }

    func hold() { state.withLock { $0.isHeld = true } }
    /// Answers the oldest question that is held back.
    func releaseOne() {
        state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }?.resume()
    }

    func setDown(_ isDown: Bool) { state.withLock { $0.isDown = isDown } }

    func release() {
        let waiting = state.withLock { state in
            defer { (state.waiting, state.isHeld) = ([], false) }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func answer(_ token: String) async throws -> IntrospectionAnswer {
        state.withLock { $0.asked.append(token) }
        await withCheckedContinuation { continuation in
            let goesOn = state.withLock { state in
                if state.isHeld { state.waiting.append(continuation) }
                return !state.isHeld
            }
            if goesOn { continuation.resume() }
        }
        if state.withLock({ $0.isDown }) { throw IssuerHTTPClient.Failure.closed }
        let claims = #"{"active":true,"sub":"anna","aud":"relay","exp":1700000900,"scope":"relay.command"}"#
        return try IntrospectionAnswer(json: JSONValue(parsing: Array((token.hasPrefix("gone") ? #"{"active":false}"# : claims).utf8)))
    }

    func verifier(bounds: QuestionQueue.Bounds = .init(), logger: Logger? = nil) -> TokenVerifier {
        let trusted = TrustedIssuer(
            key: "https://issuer.example",
            urls: ["https://issuer.example"],
            audience: .exactly("relay"),
            check: .introspection { [self] in try await answer($0.exposed) }
        )
        return TokenVerifier(
            issuers: [trusted],
            now: { [self] in Milliseconds(clamping: now.withLock { $0 }) },
            logger: logger ?? Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            bounds: bounds
        )
    }
}
