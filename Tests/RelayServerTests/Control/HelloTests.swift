// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayServer
import Testing

@Suite(.timeLimit(.minutes(10))) struct HelloTests {
    /// What the relay says to a hello made for its challenge, and the code it closes with.
    static func reject(
        core: RecordingCore = RecordingCore(),
        configure: (inout RelayConfiguration) -> Void = { _ in },
        hello: @escaping @Sendable (TransportTestEndpoint, RelayMessage.Challenge, TestRelay) throws -> EndpointMessage
    ) async throws -> RelayMessage.Rejected {
        try await TestRelay.with(core: core, configure: configure) { relay in
            let client = try await TestWebSocket.open(relay)
            let challenge = try await client.challenge()
            try await client.send(try hello(TransportTestEndpoint(), challenge, relay))
            let message = try await client.message(isWelcome: false)
            #expect(await client.closeCode() == 1008)
            guard case .rejected(let rejected) = message else { throw TestWebSocket.NotUpgraded(answer: "\(message)") }
            return rejected
        }
    }

    @Test func validHelloIsWelcomed() async throws {
        try await TestRelay.with(configure: { $0.limits[.commandBytes] = 1_000 }) { relay in
            let endpoint = TransportTestEndpoint()
            let client = try await TestWebSocket.open(relay)
            let challenge = try await client.challenge()
            try await client.send(
                try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, role: .client)
            )
            let message = try await client.message(isWelcome: false)
            guard case .welcome(let welcome) = message else { throw TestWebSocket.NotUpgraded(answer: "\(message)") }
            #expect(welcome.limits[.commandBytes] == 1_000)
            #expect(welcome.intervals == RelayMessage.Welcome.Intervals())
            let connected = try #require(relay.core.connected.first)
            #expect(connected.hello.record.payload.endpointID == endpoint.id)
            #expect(connected.hello.identity == Identity(issuer: "embedded", subject: "anna"))
            #expect(connected.hello.role == .client)
            #expect(connected.hello.mayMakeAccount)
        }
    }

    @Test func unsupportedVersionIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, version: 2)
        }
        #expect(rejected.code == .versionUnsupported)
        #expect(!rejected.retry)
    }

    @Test func aForeignOriginIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, _ in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: "https://evil.example")
        }
        #expect(rejected.code == .wrongOrigin)
    }

    @Test func onlyOriginsOfConfiguredURLsAreAccepted() async throws {
        let rejected = try await Self.reject(
            configure: { $0.urls = [Origin(scheme: "https", host: "relay.example", port: 443)] },
            hello: { endpoint, challenge, relay in
                try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin)
            }
        )
        #expect(rejected.code == .wrongOrigin)
    }

    @Test func aHelloForAnotherRelayIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: RelayKey().id, origin: relay.origin)
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func aHelloForAnotherChallengeIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: Array(repeating: 7, count: 32), relay: challenge.relay, origin: relay.origin)
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func aStolenTokenUnderAnotherSignatureIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, signedToken: "another")
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func aSignatureForAnotherOriginIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(
                nonce: challenge.nonce.bytes,
                relay: challenge.relay,
                origin: relay.origin,
                signedOrigin: "https://evil.example"
            )
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func anotherKeysSignatureIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, signer: P256SigningKey())
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func aChangedRecordIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, damagingRecord: true)
        }
        #expect(rejected.code == .signatureInvalid)
    }

    @Test func malformedRecordIsRejected() async throws {
        let rejected = try await Self.reject { endpoint, challenge, relay in
            guard
                case .hello(var hello) = try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin)
            else { throw TestWebSocket.NotUpgraded(answer: "") }
            hello.record = Blob([1, 2, 3])
            return .hello(hello)
        }
        #expect(rejected.code == .recordInvalid)
    }

    @Test(arguments: [("nonsense", ControlErrorCode.tokenInvalid), (FixedTokens.expired, .tokenExpired)])
    func invalidOrExpiredTokenIsRejected(token: String, code: ControlErrorCode) async throws {
        let core = RecordingCore()
        let rejected = try await Self.reject(core: core) { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, token: token)
        }
        #expect(rejected.code == code)
        #expect(rejected.retry)
        #expect(core.connected.isEmpty)
        #expect(core.disconnected.isEmpty)
    }

    /// By a token that is over: what it has to know is not that.
    @Test func revokedEndpointIsRejectedAsRevoked() async throws {
        let core = RecordingCore(isRevoked: true)
        let rejected = try await Self.reject(core: core) { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin, token: FixedTokens.expired)
        }
        #expect(rejected.code == .endpointRevoked)
        #expect(rejected.retry == false)
        #expect(core.connected.isEmpty)
    }

    @Test func rejectionOfTheCoreIsPassedOn() async throws {
        let rejection = RelayMessage.Rejected(code: .endpointRevoked, message: "shut out", retry: false)
        let rejected = try await Self.reject(core: RecordingCore(rejection: rejection)) { endpoint, challenge, relay in
            try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin)
        }
        #expect(rejected == rejection)
    }

    @Test func helloTimesOutWhenTheVerifierDoesNotAnswer() async throws {
        let rejected = try await Self.reject(
            configure: { $0.limits[.helloSeconds] = 1 },
            hello: { endpoint, challenge, relay in
                try endpoint.hello(
                    nonce: challenge.nonce.bytes,
                    relay: challenge.relay,
                    origin: relay.origin,
                    token: FixedTokens.unanswered
                )
            }
        )
        #expect(rejected.code == .issuerUnavailable)
    }

    @Test func helloTimesOutWhenTheCoreDoesNotAnswer() async throws {
        let rejected = try await Self.reject(
            core: RecordingCore(isAnswering: false),
            configure: { $0.limits[.helloSeconds] = 1 },
            hello: { endpoint, challenge, relay in
                try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin)
            }
        )
        #expect(rejected.code == .unavailable)
    }

    @Test func aReplayedHelloIsRejected() async throws {
        try await TestRelay.with { relay in
            let endpoint = TransportTestEndpoint()
            let first = try await TestWebSocket.open(relay)
            let challenge = try await first.challenge()
            let hello = try endpoint.hello(nonce: challenge.nonce.bytes, relay: challenge.relay, origin: relay.origin)
            try await first.send(hello)
            guard case .welcome = try await first.message(isWelcome: false) else { throw TestWebSocket.NotUpgraded(answer: "") }
            let second = try await TestWebSocket.open(relay)
            _ = try await second.challenge()
            try await second.send(hello)
            guard case .rejected(let rejected) = try await second.message(isWelcome: false) else {
                throw TestWebSocket.NotUpgraded(answer: "")
            }
            #expect(rejected.code == .signatureInvalid)
            #expect(relay.core.connected.count == 1)
        }
    }

    @Test(arguments: [
        (#"{"type":"watch","ref":1}"#, UInt16(1002)),
        (#"{"type":"new.request","ref":1}"#, 1002),
        (#"{"type":"hello"}"#, 1007),
        (#"{"no":"type"}"#, 1007),
        ("[]", 1007),
        ("", 1007),
        ("{", 1007),
    ])
    func firstMessageOtherThanHelloClosesTheChannel(text: String, code: UInt16) async throws {
        try await TestRelay.with { relay in
            let client = try await TestWebSocket.open(relay)
            _ = try await client.challenge()
            try await client.send(text: text)
            #expect(await client.closeCode() == code)
        }
    }

    @Test func revokedLoginClosesOnlyItsChannels() async throws {
        try await TestRelay.with { relay in
            let (first, second) = (try await TestWebSocket.welcomed(relay), try await TestWebSocket.welcomed(relay))
            let third = try await TestWebSocket.welcomed(relay, token: FixedTokens.renewed)
            try await second.send(.authRefresh(.init(ref: .first, token: Secret(FixedTokens.renewed))))
            guard case .ok = try await second.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
            let logins = relay.tokens.logins
            #expect(logins.followerCount == 3)
            logins.revoke(FixedTokens.login, until: 9_000_000_000_000, now: 0)
            guard case .authInvalidated(let invalidated) = try await first.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
            #expect(invalidated.code == .tokenRevoked)
            #expect(await first.closeCode() == 1008)
            for other in [second, third] {
                try await other.send(.watch(.init(ref: .first)))
                guard case .ok = try await other.message() else { throw TestWebSocket.NotUpgraded(answer: "") }
                await other.socket.close()
            }
            // All followers are removed.
            #expect(try await eventually { logins.followerCount == 0 })
        }
    }

    @Test func aSecondHelloClosesTheChannel() async throws {
        try await TestRelay.with { relay in
            let endpoint = TransportTestEndpoint()
            let client = try await TestWebSocket.welcomed(relay, endpoint: endpoint)
            try await client.send(try endpoint.hello(nonce: Array(repeating: 0, count: 32), relay: relay.key.id, origin: relay.origin))
            #expect(await client.closeCode() == 1002)
            #expect(try await eventually { relay.core.disconnected.count == 1 })
        }
    }
}
