// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Issuers that answer a sign-in as they should not. They are other servers than the relay.
@Suite struct HostileSignInAttackTests {
    /// A relay that names an issuer, and the issuer. `ISSUER` stands for the issuer's origin.
    final class Bench: Sendable {
        struct Answers: Sendable {
            var servers = #"["ISSUER"]"#
            var metadata = """
                {"issuer": "ISSUER", "token_endpoint": "ISSUER/token", "device_authorization_endpoint": "ISSUER/device",
                 "dpop_signing_alg_values_supported": ["ES256"], "scopes_supported": ["openid", "relay.command", "offline_access"]}
                """
            var device = """
                {"device_code": "canary-d", "user_code": "BCDF-GHJK", "verification_uri": "ISSUER/enter", "expires_in": 600, "interval": 1}
                """
            /// To each request for tokens, with the status.
            var tokens: [(Int, String)?] = [(200, HostileIssuerTests.Answers.good)]
        }

        let relay: TestRelayServer
        let issuer: TestRelayServer
        let requests = Shared<[String]>([])
        let endpoint: EndpointCredentials
        let prompts = Shared<[DeviceGrantPrompt]>([])
        /// The waits between requests, in seconds.
        let waits = Shared<[Int64]>([])
        private let directory: TemporaryDirectory

        init(_ answers: Answers) async throws {
            directory = try TemporaryDirectory()
            let (requests, polls) = (requests, Shared(0))
            let server = try await TestRelayServer(
                .plain,
                .answers { request in
                    requests.withLock { $0.append(request) }
                    let host = request.split(separator: "\r\n").first { $0.hasPrefix("Host: ") }?.dropFirst(6) ?? ""
                    let answer: (Int, String)?
                    if request.hasPrefix("GET /.well-known/") {
                        answer = (200, answers.metadata)
                    } else if request.hasPrefix("POST /device ") {
                        answer = (200, answers.device)
                    } else {
                        let poll = polls.withLock { polls in
                            defer { polls += 1 }
                            return polls
                        }
                        answer = poll < answers.tokens.count ? answers.tokens[poll] : (500, "")
                        if answer == nil { return "" }
                    }
                    return answer.map { HostileIssuerTests.Answers.json($0.1.replacing("ISSUER", with: "http://\(host)"), status: $0.0) }
                }
            )
            issuer = server
            relay = try await TestRelayServer(
                .plain,
                .answers { _ in
                    HostileIssuerTests.Answers.json(
                        "{\"authorization_servers\": \(answers.servers)}".replacing("ISSUER", with: "http://127.0.0.1:\(server.port)")
                    )
                }
            )
            endpoint = EndpointCredentials(
                identityKey: P256SigningKey(),
                tokens: FileTokenStorage(directory: directory.path),
                relay: MachineBench.relay,
                address: try RelayAddress(try #require(URL(string: "http://127.0.0.1:\(relay.port)"))),
                trust: RelayTrust(relay: MachineBench.relay),
                now: { 1_700_000_000_000 }
            )
        }

        /// Signs in without waiting.
        func signIn() async throws -> AccessTokenError.Code? {
            let (prompts, waits) = (prompts, waits)
            let provider = DeviceGrantAccessTokenProvider(
                clientID: "the client",
                http: HTTPRequestClient(),
                sleep: { time in waits.withLock { $0.append((time + 500) / 1_000) } },
                prompt: { prompt in prompts.withLock { $0.append(prompt) } }
            )
            let request = try endpoint.request()
            do throws(AccessTokenError) {
                _ = try await provider.accessToken(for: request)
                return nil
            } catch {
                #expect(!"\(error)\(String(reflecting: error))".contains("canary"))
                return error.code
            }
        }

        func stop() async {
            await relay.stop()
            await issuer.stop()
        }
    }

    typealias Answers = Bench.Answers

    static func signIn(_ answers: Answers) async throws -> (code: AccessTokenError.Code?, bench: Bench) {
        let bench = try await Bench(answers)
        let code = try await bench.signIn()
        await bench.stop()
        return (code, bench)
    }

    @Test func otherIssuerSignsIn() async throws {
        let (code, bench) = try await Self.signIn(Answers())
        #expect(code == nil)
        let stored = try bench.endpoint.stored()
        #expect(stored.isOtherIssuer == true && stored.clientID == "the client")
        #expect(stored.issuer == "http://127.0.0.1:\(bench.issuer.port)")
        #expect(bench.prompts.value.map(\.userCode) == ["BCDF-GHJK"])
        #expect(bench.requests.value.filter { $0.hasPrefix("POST") }.allSatisfy { $0.contains("DPoP: ") })
    }

    /// A person cannot mend a provider by an update of the relay.
    @Test(arguments: [
        (#"{"access_token": "canary", "expires_in": 60}"#, "token_type"), (#"{"access_token": 7, "token_type": "Bearer"}"#, "access_token"),
        (#"{"access_token": "canary", "token_type": "Bearer", "expires_in": "soon"}"#, "expires_in"), ("canary", "JSON"),
    ]) func faultOfAProviderNamesItAndTheMember(_ body: String, _ member: String) async throws {
        let bench = try await Bench(Answers(tokens: [(200, body)]))
        let provider = DeviceGrantAccessTokenProvider(clientID: "the client", http: HTTPRequestClient(), sleep: { _ in }, prompt: { _ in })
        let request = try bench.endpoint.request()
        let error = await #expect(throws: AccessTokenError.self) { try await provider.accessToken(for: request) }
        let message = try #require(error?.message)
        #expect(message.contains("http://127.0.0.1:\(bench.issuer.port)") && message.contains(member), "\(message)")
        #expect(!message.contains("update") && !message.contains("relay's issuer") && !message.contains("canary"))
        await bench.stop()
    }

    @Test(arguments: ["invalid_client", "unauthorized_client"]) func providerThatDoesNotKnowTheAppIsNamed(_ code: String) async throws {
        let bench = try await Bench(Answers(tokens: [(401, "{\"error\": \"\(code)\"}")]))
        let provider = DeviceGrantAccessTokenProvider(clientID: "the client", http: HTTPRequestClient(), sleep: { _ in }, prompt: { _ in })
        let request = try bench.endpoint.request()
        let error = await #expect(throws: AccessTokenError.self) { try await provider.accessToken(for: request) }
        let message = try #require(error?.message)
        #expect(message.contains("http://127.0.0.1:\(bench.issuer.port)") && message.contains("public client") && message.contains(code))
        await bench.stop()
    }

    /// Some providers of OpenID Connect demand a nonce.
    @Test func requestWithOpenIDHasANonce() async throws {
        var answers = Answers()
        let members = "\"authorization_endpoint\": \"ISSUER/page\", \"token_endpoint\""
        answers.metadata = answers.metadata.replacing("\"token_endpoint\"", with: members)
        let bench = try await Bench(answers)
        let pages = Shared<[URL]>([])
        let provider = BrowserAccessTokenProvider(clientID: "the client") { page in
            let opened = try await SignInBrowser.opened(page)
            pages.withLock { $0 += [URL(string: opened)].compactMap { $0 } }
            throw CancellationError()
        }
        let request = try bench.endpoint.request()
        await #expect(throws: AccessTokenError.self) { try await provider.accessToken(for: request) }
        let page = try #require(pages.value.first)
        let query = URLComponents(url: page, resolvingAgainstBaseURL: false)?.queryItems ?? []
        #expect(query.first { $0.name == "scope" }?.value == "offline_access openid relay.command")
        #expect(query.first { $0.name == "nonce" }?.value?.count == 43)
        #expect(query.first { $0.name == "resource" }?.value == "http://127.0.0.1:\(bench.relay.port)")
        await bench.stop()
    }

    /// Otherwise the operator of another relay with the same provider could use the tokens here.
    @Test func everyRequestForTokensNamesTheRelay() async throws {
        let bench = try await Bench(Answers(tokens: [(200, HostileIssuerTests.Answers.good), (200, HostileIssuerTests.Answers.good)]))
        #expect(try await bench.signIn() == nil)
        var expired = try bench.endpoint.stored()
        expired.accessTokenExpires = 0
        try await bench.endpoint.tokens.withExclusiveAccess { [expired] in $0 = expired }
        #expect(try await bench.signIn() == nil)
        await bench.stop()
        let posts = bench.requests.value.filter { $0.hasPrefix("POST") }
        // For the device's code, the token and its refresh.
        #expect(posts.count == 3)
        for post in posts { #expect(post.contains("resource=http%3A%2F%2F127.0.0.1%3A\(bench.relay.port)"), "\(post)") }
    }

    @Test func issuerWithoutProofsGetsNone() async throws {
        var answers = Answers()
        answers.metadata = answers.metadata.replacing("[\"ES256\"]", with: "[\"RS256\"]")
        let (code, bench) = try await Self.signIn(answers)
        #expect(code == nil)
        #expect(!bench.requests.value.contains { $0.contains("DPoP: ") })
    }

    @Test(arguments: [
        #"["http://192.0.2.1/"]"#, #"["ftp://login.example"]"#, #"["http://login.example"]"#, #"["https://user@login.example"]"#,
        #"["https://login.example?x"]"#, "[]",
    ]) func issuerWithoutTLSIsNotAsked(_ servers: String) async throws {
        let (code, bench) = try await Self.signIn(Answers(servers: servers))
        #expect(code == .declined)
        #expect(bench.issuer.connectionCount == 0)
    }

    @Test(arguments: [
        ("\"issuer\": \"ISSUER\"", "\"issuer\": \"ISSUER/\"", AccessTokenError.Code.serviceFailed),
        ("\"issuer\": \"ISSUER\"", "\"issuer\": \"https://login.example\"", .serviceFailed),
        ("ISSUER/token", "http://login.example/token", .serviceFailed), ("ISSUER/token", "/token", .serviceFailed),
        ("ISSUER/device", "http://192.0.2.1/device", .declined), ("ISSUER/device", "ISSUER/device#x", .declined),
    ]) func metadataWithInvalidURLsEndIt(_ old: String, _ new: String, _ code: AccessTokenError.Code) async throws {
        var answers = Answers()
        answers.metadata = answers.metadata.replacing(old, with: new)
        let (ended, bench) = try await Self.signIn(answers)
        #expect(ended == code)
        #expect(bench.prompts.value.isEmpty)
        #expect(!bench.requests.value.contains { $0.hasPrefix("POST") })
    }

    @Test(arguments: [
        ("ISSUER/enter", "javascript:alert(1)"), ("ISSUER/enter", "file:///etc/passwd"), ("ISSUER/enter", "http://login.example/enter"),
        ("ISSUER/enter", "https://user@login.example/enter"), ("ISSUER/enter", ""), ("BCDF-GHJK", ""), ("BCDF-GHJK", #"\u001b[2J"#),
        ("BCDF-GHJK", #"\u202eX"#), ("BCDF-GHJK", "   "), ("BCDF-GHJK", String(repeating: "X", count: 65)), ("canary-d", ""),
        ("canary-d", String(repeating: "d", count: 5_000)), ("\"expires_in\": 600, ", ""),
    ]) func invalidDeviceAnswersAreNotShown(_ old: String, _ new: String) async throws {
        var answers = Answers()
        answers.device = answers.device.replacing(old, with: new)
        let (code, bench) = try await Self.signIn(answers)
        #expect(code == .serviceFailed)
        #expect(bench.prompts.value.isEmpty)
    }

    /// A hostile complete address is left out, since the other one works too.
    @Test func invalidCompletePageIsLeftOut() async throws {
        var answers = Answers()
        answers.device = answers.device.replacing("\"interval\"", with: "\"verification_uri_complete\": \"javascript:x\", \"interval\"")
        let (code, bench) = try await Self.signIn(answers)
        #expect(code == nil)
        #expect(bench.prompts.value.map(\.verificationURIComplete) == [nil])
    }

    @Test func waitsFollowTheAnswers() async throws {
        func rejection(_ error: String, _ status: Int = 400) -> (Int, String) { (status, "{\"error\": \"\(error)\"}") }
        let answers = Answers(tokens: [
            rejection("authorization_pending"), rejection("slow_down"), (503, ""), nil, rejection("authorization_pending"),
            (200, HostileIssuerTests.Answers.good),
        ])
        let (code, bench) = try await Self.signIn(answers)
        #expect(code == nil)
        #expect(bench.waits.value == [1, 1, 6, 12, 24, 6])
    }

    @Test(arguments: [
        ("access_denied", AccessTokenError.Code.declined), ("expired_token", .signInRequired), ("invalid_grant", .signInRequired),
        ("invalid_client", .declined), ("canary_of_the_server", .declined),
    ]) func rejectionsEndIt(_ error: String, _ code: AccessTokenError.Code) async throws {
        let (ended, bench) = try await Self.signIn(Answers(tokens: [(400, "{\"error\": \"\(error)\"}")]))
        #expect(ended == code)
        #expect(bench.waits.value.count == 1)
        #expect(try bench.endpoint.tokens.read() == nil)
    }

    /// The relay must not get the refresh token of an issuer that it no longer names.
    @Test func refreshTokenGoesToNoOtherIssuer() async throws {
        let bench = try await Bench(Answers())
        let tokens = StoredTokens(
            issuer: "https://login.example",
            clientID: "the client",
            scopes: [],
            accessToken: Secret("canary-a"),
            accessTokenExpires: 0,
            refreshToken: Secret("canary-r"),
            isOtherIssuer: true
        )
        try await bench.endpoint.tokens.withExclusiveAccess { $0 = tokens }
        #expect(try await tokenError(RefreshingTests.provider(), bench.endpoint) == .declined)
        #expect(bench.relay.connectionCount == 1 && bench.issuer.connectionCount == 0)
        await bench.stop()
    }
}
