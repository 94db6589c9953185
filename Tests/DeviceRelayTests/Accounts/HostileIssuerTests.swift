// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

/// Issuers that do not do as they should, and answers that do not come.
@Suite(.timeLimit(.minutes(10))) struct HostileIssuerTests {
    /// What is answered to the requests of a join, in their order. `ORIGIN` stands for the server's own.
    struct Answers: Sendable {
        var resource = json(#"{"resource": "ORIGIN", "authorization_servers": ["https://login.example", "ORIGIN/auth"]}"#)
        var metadata: String? = json(#"{"issuer": "ORIGIN/auth", "token_endpoint": "ORIGIN/auth/token"}"#)
        /// To each request for tokens.
        var tokens: [String?] = [json(good)]

        static let good = #"{"access_token": "canary-a", "token_type": "DPoP", "expires_in": 900, "refresh_token": "canary-r"}"#

        static func json(_ body: String, status: Int = 200, headers: String = "") -> String {
            "HTTP/1.1 \(status) Status\r\nContent-Type: application/json\r\n\(headers)\r\n\(body)"
        }
    }

    struct Ended {
        var error: AccountError?
        var stored: StoredTokens?
        /// The first lines of the requests.
        var requests: [String]
        var proofs: [String]
    }

    final class Bench: Sendable {
        let server: TestRelayServer
        let heads = Shared<[String]>([])
        let endpoint: EndpointCredentials
        private let directory: TemporaryDirectory

        init(_ answers: Answers, onRequest: @escaping @Sendable (String) -> Void = { _ in }) async throws {
            directory = try TemporaryDirectory()
            let heads = heads
            server = try await TestRelayServer(
                .plain,
                .answers(relay: MachineBench.relay) { head in
                    onRequest(head)
                    let before = heads.withLock { heads in
                        defer { heads.append(head) }
                        return heads.filter { $0.hasPrefix("POST") }.count
                    }
                    let host = head.split(separator: "\r\n").first { $0.hasPrefix("Host: ") }?.dropFirst(6) ?? ""
                    let answer: String?
                    if head.hasPrefix("GET /.well-known/oauth-protected-resource ") {
                        answer = answers.resource
                    } else if head.hasPrefix("GET /.well-known/oauth-authorization-server/auth ") {
                        answer = answers.metadata
                    } else {
                        answer = before < answers.tokens.count ? answers.tokens[before] : nil
                    }
                    return answer?.replacing("ORIGIN", with: "http://\(host)")
                }
            )
            endpoint = EndpointCredentials(
                identityKey: P256SigningKey(),
                tokens: FileTokenStorage(directory: directory.path),
                relay: MachineBench.relay,
                address: try RelayAddress(try #require(URL(string: "http://127.0.0.1:\(server.port)"))),
                trust: RelayTrust(relay: MachineBench.relay),
                now: { 1_700_000_000_000 }
            )
        }

        func link() throws -> JoinLink {
            try JoinLink(
                origin: "http://127.0.0.1:\(server.port)",
                relay: MachineBench.relay,
                invite: Secret("canary-i"),
                plainHTTP: .allowed
            )
        }
    }

    static func join(_ answers: Answers) async throws -> Ended {
        let bench = try await Bench(answers)
        let link = try bench.link()
        var failure: AccountError?
        do throws(AccountError) {
            try await redeem(link, clientID: "org.example.test", as: bench.endpoint)
        } catch {
            failure = error
        }
        await bench.server.stop()
        let heads = bench.heads.value
        if let failure { #expect(!"\(failure)\(String(reflecting: failure))".contains("canary")) }
        return Ended(
            error: failure,
            stored: try bench.endpoint.tokens.read(),
            requests: heads.map { String($0.prefix { $0 != "\r\n" }) },
            proofs: heads.compactMap { $0.split(separator: "\r\n").first { $0.hasPrefix("DPoP: ") }.map { String($0.dropFirst(6)) } }
        )
    }

    @Test func joinAsksForTheRelayBeforeItsThreeRequests() async throws {
        let ended = try await Self.join(Answers())
        #expect(ended.error == nil)
        #expect(
            ended.requests == [
                "GET /v1/connect HTTP/1.1", "GET /.well-known/oauth-protected-resource HTTP/1.1",
                "GET /.well-known/oauth-authorization-server/auth HTTP/1.1", "POST /auth/token HTTP/1.1",
            ]
        )
        #expect(ended.stored?.accessToken.exposed == "canary-a")
        #expect(ended.stored?.accessTokenExpires == 1_700_000_900_000)
    }

    @Test(arguments: [
        // Elsewhere: another host, port or scheme, a user, a query.
        (#"["https://login.example/auth"]"#, AccountError.Code.accessTokenRequestFailed),
        (#"["http://127.0.0.1:1/auth"]"#, .accessTokenRequestFailed),
        (#"["http://127.0.0.1.evil.example/auth"]"#, .accessTokenRequestFailed), (#"[]"#, .accessTokenRequestFailed),
        (#"["ORIGIN@evil.example/auth", "ORIGIN/auth?x", "ORIGIN/au th", ""]"#, .accessTokenRequestFailed), (#"[1]"#, .serviceFailed),
        ("7", .serviceFailed),
    ]) func issuersOfOtherOriginsGetNoRequest(_ servers: String, _ code: AccountError.Code) async throws {
        let ended = try await Self.join(Answers(resource: Answers.json("{\"authorization_servers\": \(servers)}")))
        #expect(ended.error?.code == code)
        #expect(ended.requests.count == 2)
    }

    @Test(arguments: [
        #"{"issuer": "ORIGIN/other", "token_endpoint": "ORIGIN/auth/token"}"#,
        #"{"issuer": "ORIGIN/auth", "token_endpoint": "https://evil.example/token"}"#,
        #"{"issuer": "ORIGIN/auth", "token_endpoint": "http://127.0.0.1:1/token"}"#,
        #"{"issuer": "ORIGIN/auth", "token_endpoint": "ORIGIN/token#x"}"#,
        #"{"issuer": "ORIGIN/auth", "token_endpoint": "ORIGIN/\r\nX: y"}"#,
        #"{"issuer": "ORIGIN/auth"}"#, "", "[[[[[[[[", String(repeating: "[", count: 60_000),
    ]) func issuerMetadataWithInvalidURLsAreRejected(_ metadata: String) async throws {
        let ended = try await Self.join(Answers(metadata: Answers.json(metadata)))
        #expect(ended.error?.code == .serviceFailed)
        #expect(ended.requests.count == 3)
        #expect(ended.stored == nil)
    }

    @Test(arguments: [
        #"{"access_token": "", "token_type": "DPoP"}"#,
        #"{"access_token": "canary", "token_type": "mac"}"#,
        #"{"access_token": "canary"}"#,
        #"{"access_token": "canary\r\nX: y", "token_type": "DPoP"}"#,
        #"{"access_token": "canary", "token_type": "DPoP", "refresh_token": ""}"#,
        #"{"access_token": "canary", "token_type": "DPoP", "expires_in": "soon"}"#,
        #"{"access_token": "canary", "token_type": "DPoP", "expires_in": ""}"#,
        #"{"access_token": "canary", "token_type": "DPoP", "expires_in": "-1"}"#,
        #"{"access_token": "canary", "token_type": "DPoP", "expires_in": [900]}"#,
        #"{"access_token": "\#(String(repeating: "a", count: 17_000))", "token_type": "DPoP"}"#,
        #"{"access_token": "\#(String(repeating: "a", count: 70_000))", "token_type": "DPoP"}"#,
        "canary", "",
    ]) func invalidTokenResponsesAreNotStored(_ body: String) async throws {
        let ended = try await Self.join(Answers(tokens: [Answers.json(body)]))
        #expect(ended.error?.code == .serviceFailed)
        #expect(ended.stored == nil)
    }

    @Test(
        arguments: [
            ("-5", 1_700_000_000_000), (#""900""#, 1_700_000_900_000), (#""999999999999999999""#, 1_700_086_400_000),
            ("1e300", 1_700_086_400_000), ("0.5", 1_700_000_000_500),
        ] as [(String, Int64)]
    )
    func accessTokenLifetimeIsClamped(_ life: String, _ expires: Int64) async throws {
        let body = "{\"access_token\": \"a\", \"token_type\": \"dpop\", \"expires_in\": \(life)}"
        #expect(try await Self.join(Answers(tokens: [Answers.json(body)])).stored?.accessTokenExpires == expires)
    }

    @Test(arguments: [("endpointRevoked", AccessTokenError.Code.endpointRevoked), ("other", .signInRequired)])
    func refreshErrorNamesTheReason(reason: String, code: AccessTokenError.Code) async throws {
        let rejection = Answers.json(#"{"error": "invalid_grant", "reason": "\#(reason)"}"#, status: 400)
        let bench = try await Bench(Answers(tokens: [rejection]))
        try await bench.endpoint.tokens.withExclusiveAccess { $0 = .sample }
        #expect(try await tokenError(RefreshingTests.provider(), bench.endpoint) == code)
    }

    @Test(arguments: [
        (400, "invalid_grant", AccountError.Code.linkInvalid), (400, "invalid_client", .accessTokenRequestFailed),
        (400, "canary_of_the_server", .accessTokenRequestFailed), (401, "invalid_request", .accessTokenRequestFailed),
        (429, "temporarily_unavailable", .serviceFailed), (503, "temporarily_unavailable", .serviceFailed),
        (500, "server_error", .serviceFailed),
        (302, "invalid_grant", .serviceFailed),
    ]) func tokenErrorsMapToAccountErrors(_ status: Int, _ error: String, _ code: AccountError.Code) async throws {
        let answer = Answers.json("{\"error\": \"\(error)\", \"error_description\": \"canary\"}", status: status)
        let ended = try await Self.join(Answers(tokens: [answer]))
        #expect(ended.error?.code == code)
        #expect(ended.stored == nil)
    }

    @Test func rejectedDPoPProofIsRetriedOnceWithServerTime() async throws {
        let rejection = Answers.json(#"{"error": "invalid_dpop_proof"}"#, status: 400, headers: "Date: Tue, 14 Nov 2023 23:13:20 GMT\r\n")
        let ended = try await Self.join(Answers(tokens: [rejection, Answers.json(Answers.good)]))
        #expect(ended.error == nil)
        let times = try ended.proofs.map { proof in
            try SignedJSON(parsing: proof).claims(JSONValue.self).member("iat") as Int64
        }
        #expect(times == [1_700_000_000, 1_700_003_600])
        // It is repeated once, and only with a server time.
        let again = try await Self.join(Answers(tokens: [rejection, rejection, Answers.json(Answers.good)]))
        #expect(again.error?.code == .accessTokenRequestFailed)
        #expect(again.requests.count == 5)
        let withoutDate = Answers.json(#"{"error": "invalid_dpop_proof"}"#, status: 400)
        #expect(try await Self.join(Answers(tokens: [withoutDate, Answers.json(Answers.good)])).requests.count == 4)
    }

    @Test func joinThatIsCancelledBeforeItsCodeIsSentStoresNothing() async throws {
        let (arrived, continuation) = AsyncStream.makeStream(of: Void.self)
        let bench = try await Bench(Answers(metadata: nil)) { if $0.contains("authorization-server") { continuation.yield() } }
        let link = try bench.link()
        let task = Task {
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: "org.example.test", as: bench.endpoint) }
        }
        for await _ in arrived { break }
        task.cancel()
        #expect(await task.value == .cancelled)
        await bench.server.allConnectionsClosed()
        #expect(try bench.endpoint.tokens.read() == nil)
        // The lock is free.
        try await bench.endpoint.tokens.withExclusiveAccess { _ in }
        await bench.server.stop()
    }

    /// Runs an exchange, and cancels its task when the request for tokens has arrived, before it is answered.
    private func cancelledWhenSent<Result: Sendable>(
        _ answers: Answers,
        _ exchange: @escaping @Sendable (Bench) async throws -> Result
    ) async throws -> (Result, StoredTokens?) {
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let running = Shared<Task<Result, any Error>?>(nil)
        let bench = try await Bench(answers) { if $0.hasPrefix("POST") { running.withLock { $0 }?.cancel() } }
        try await bench.endpoint.tokens.withExclusiveAccess { $0 = .sample }
        let task = Task {
            for await _ in begun { break }
            return try await exchange(bench)
        }
        running.withLock { $0 = task }
        begin.yield()
        let result = try await task.value
        #expect(task.isCancelled)
        await bench.server.stop()
        return (result, try bench.endpoint.tokens.read())
    }

    @Test func refreshThatWasSentIsStoredAlthoughItsTaskIsCancelled() async throws {
        let (error, stored) = try await cancelledWhenSent(Answers()) { try await tokenError(RefreshingTests.provider(), $0.endpoint) }
        #expect(error == nil)
        #expect(stored?.refreshToken?.exposed == "canary-r")
    }

    @Test func joinWhoseCodeWasSentIsStoredAlthoughItsTaskIsCancelled() async throws {
        let (error, stored) = try await cancelledWhenSent(Answers()) { bench in
            let link = try bench.link()
            return await accountError { () async throws(AccountError) in
                try await redeem(link, clientID: "org.example.test", as: bench.endpoint)
            }
        }
        #expect(error == nil)
        #expect(stored?.refreshToken?.exposed == "canary-r")
    }

    /// A full disk is noticed before the code is sent.
    @Test func codeIsNotSentWithoutRoomForItsTokens() async throws {
        struct Full: TokenStorage, LockedTokens {
            func read() -> StoredTokens? { nil }
            func write(_ tokens: StoredTokens?) throws(StorageError) { throw StorageError(.full, path: "/full") }
            func reserve() throws(StorageError) { throw StorageError(.full, path: "/full") }
            func withLock<Value: Sendable>(_ body: @Sendable (any LockedTokens) async throws -> Value) async throws -> Value {
                try await body(self)
            }
        }
        let bench = try await Bench(Answers())
        let (link, endpoint) = (try bench.link(), bench.endpoint.with(tokens: Full()))
        #expect(
            await accountError { () async throws(AccountError) in try await redeem(link, clientID: "org.example.test", as: endpoint) }
                == .storageFailed
        )
        #expect(!bench.heads.value.contains { $0.hasPrefix("POST") })
        await bench.server.stop()
    }

    @Test(arguments: [
        (Answers(tokens: [nil]), true), (Answers(tokens: [Answers.json("", status: 500)]), true),
        (Answers(tokens: [Answers.json("canary")]), true),
        (Answers(tokens: [Answers.json(#"{"error": "invalid_grant"}"#, status: 400)]), false),
        (Answers(resource: Answers.json("[]")), false),
    ]) func failureSaysWhetherTheLinkMayBeUsedUp(_ answers: Answers, _ mayBe: Bool) async throws {
        let bench = try await Bench(answers)
        let link = try bench.link()
        let error = await #expect(throws: AccountError.self) {
            try await redeem(link, clientID: "org.example.test", as: bench.endpoint, http: HTTPRequestClient(timeout: 5_000))
        }
        #expect(error?.mayHaveUsedLink == mayBe)
        #expect(error?.message.contains("same link again") == mayBe)
        await bench.server.stop()
    }
}
