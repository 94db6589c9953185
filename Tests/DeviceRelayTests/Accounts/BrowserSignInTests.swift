// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// A sign-in with a browser at a real relay and its issuer. The browser is scripted.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BrowserSignInTests {
    /// The last page of a browser, which comes when the tokens are stored. The provider does not wait until it is read, and cancels what
    /// opens the browser.
    typealias LastPage = Task<SignInBrowser.Page, any Error>

    static func request(_ endpoint: EndpointCredentials) throws -> AccessTokenRequest { try endpoint.request(device: "Desk") }

    static func parts(_ location: String) throws -> (origin: String, port: Int, query: String) {
        let components = try #require(URLComponents(string: location))
        let port = try #require(components.port)
        #expect(components.scheme == "http" && components.host == "127.0.0.1" && components.path == "/signed-in")
        return ("http://127.0.0.1:\(port)", port, try #require(components.percentEncodedQuery))
    }

    @Test func userAllowsTheApp() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let pages = Shared<[LastPage]>([])
        let provider = BrowserAccessTokenProvider(registeringAs: "Player") { url in
            let location = try await browser.decide(app: url)
            pages.withLock { $0.append(Task { try await SignInBrowser.request("GET", location) }) }
        }
        let request = try Self.request(endpoint)
        let token = try await provider.accessToken(for: request)
        let page = try #require(pages.value.first)
        #expect(try await page.value.status == 200)
        #expect(try boundKey(of: token.value) == endpoint.identityKey.publicKey.jwkThumbprint)
        #expect(try await browser.get("/auth/account").text.contains("Player on Desk"))
        // It goes on without the user.
        try await endpoint.expire()
        #expect(try await provider.accessToken(for: request) != token)
        #expect(pages.value.count == 1)
    }

    @Test func userDoesNotAllowTheApp() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let provider = BrowserAccessTokenProvider(registeringAs: "Player") { url in
            _ = try await SignInBrowser.request("GET", try await browser.decide(app: url, "deny"))
        }
        #expect(try await tokenError(provider, endpoint) == .declined)
        #expect(try endpoint.tokens.read() == nil)
    }

    @Test func hostileRequestsDoNotEndTheSignIn() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let statuses = Shared<[Int]>([])
        let answers = Shared<[String]>([])
        let pages = Shared<[LastPage]>([])
        let provider = BrowserAccessTokenProvider(registeringAs: "Player") { url in
            let location = try await browser.decide(app: url)
            let (origin, port, query) = try Self.parts(location)
            let code = try #require(URLComponents(string: location)?.queryItems?.first { $0.name == "code" }?.value)
            for target in [
                "/signed-in?code=\(code)&state=other", "/signed-in?" + query.replacing("iss=http", with: "iss=https"),
                "/signed-in?\(query)&code=\(code)", "/other?" + query, "/favicon.ico",
            ] {
                let status = try await SignInBrowser.request("GET", origin + target).status
                statuses.withLock { $0.append(status) }
            }
            let post = try await SignInBrowser.request("POST", location, body: query).status
            statuses.withLock { $0.append(post) }
            for text in [
                "GET /signed-in?\(query) HTTP/1.1\r\nHost: evil.example:\(port)\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n",
                "GET /signed-in?\(query) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nX: \(String(repeating: "a", count: 17_000))",
            ] {
                let answer = try await SignInBrowser.send(text, port: port)
                answers.withLock { $0.append(String(answer.prefix(12))) }
            }
            pages.withLock { $0.append(Task { try await SignInBrowser.request("GET", location) }) }
        }
        _ = try await provider.accessToken(for: try Self.request(endpoint))
        #expect(statuses.value == [400, 400, 400, 404, 404, 405])
        #expect(try await pages.value.first?.value.status == 200)
        #expect(answers.value == ["HTTP/1.1 400", "HTTP/1.1 400", "HTTP/1.1 431"])
    }

    @Test func browserIsToldTheOutcome() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let pages = Shared<[LastPage]>([])
        func provider(_ decision: String) -> BrowserAccessTokenProvider {
            BrowserAccessTokenProvider(registeringAs: "Player") { url in
                let location = try await browser.decide(app: url, decision)
                pages.withLock { $0.append(Task { try await SignInBrowser.request("GET", location) }) }
            }
        }
        #expect(try await tokenError(provider("deny"), endpoint) == .declined)
        #expect(try await tokenError(provider("allow"), endpoint) == nil)
        #expect(pages.value.count == 2)
        let texts = [try await pages.value.first?.value.text, try await pages.value.last?.value.text]
        #expect(texts[0]?.contains("not signed in: the user did not allow this device") == true)
        #expect(texts[1]?.contains("This device is signed in.") == true)
    }

    @Test func browserIsToldTheOutcomeInItsLanguage() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let pages = Shared<[Task<String, any Error>]>([])
        let other = Shared<[String]>([])
        func provider(_ decision: String, _ languages: String) -> BrowserAccessTokenProvider {
            BrowserAccessTokenProvider(registeringAs: "Player") { url in
                let (_, port, query) = try Self.parts(try await browser.decide(app: url, decision))
                let fields = " HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nAccept-Language: \(languages)\r\n\r\n"
                let answer = try await SignInBrowser.send("GET /favicon.ico" + fields, port: port)
                other.withLock { $0.append(answer) }
                pages.withLock { $0.append(Task { try await SignInBrowser.send("GET /signed-in?\(query)" + fields, port: port) }) }
            }
        }
        #expect(try await tokenError(provider("deny", "ja, de-AT;q=0.9"), endpoint) == .declined)
        #expect(try await tokenError(provider("allow", "zh-CN"), endpoint) == nil)
        try #require(pages.value.count == 2 && other.value.count == 2)
        let texts = other.value + [try await pages.value[0].value, try await pages.value[1].value]
        for (text, language) in zip(texts, ["de", "zh", "de", "zh"]) {
            #expect(text.contains("<html lang=\"\(language)\">") && text.contains("\r\nContent-Language: \(language)\r\n"))
        }
        #expect(texts[0].contains("nicht die Antwort, auf die die App wartet") && texts[1].contains("应用所等待的响应"))
        // What the program says stays English.
        #expect(texts[2].contains("nicht angemeldet: the user did not allow this device") && texts[3].contains("此设备已登录。"))
    }

    @Test func redirectPortIsUsedOrNamed() async throws {
        let (bench, _, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let port = UInt16(try FreePort.take())
        let seen = Shared<[String]>([])
        let provider = BrowserAccessTokenProvider(clientID: "com.example.app", redirectPort: port) { url in
            let page = URLComponents(string: try await SignInBrowser.opened(url))
            seen.withLock { $0 += page?.queryItems?.filter { $0.name == "redirect_uri" }.compactMap(\.value) ?? [] }
            throw CancellationError()
        }
        #expect(try await tokenError(provider, endpoint) == .cancelled)
        #expect(seen.value == ["http://127.0.0.1:\(port)/signed-in"])
        let check = AuthorizationResponseCheck(path: LoopbackRedirect.path, state: Secret("s"), issuer: "https://x", needsIssuer: false)
        let other = try await LoopbackRedirect.listen(for: check, port: Int(port), timeout: 600_000)
        await #expect(throws: IssuerClientError.portInUse(Int(port))) {
            try await LoopbackRedirect.listen(for: check, port: Int(port), timeout: 600_000)
        }
        other.stop()
    }

    @Test func nothingListensAfterTheSignIn() async throws {
        let (bench, browser, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let port = Shared(0)
        let provider = BrowserAccessTokenProvider(registeringAs: "Player") { url in
            let location = try await browser.decide(app: url)
            port.withLock { $0 = (try? Self.parts(location).port) ?? 0 }
            _ = try await SignInBrowser.request("GET", location)
        }
        _ = try await provider.accessToken(for: try Self.request(endpoint))
        #expect(port.value > 0)
        await #expect(throws: (any Error).self) { try await SignInBrowser.send("GET / HTTP/1.1\r\n\r\n", port: port.value) }
    }

    @Test func userWhoDoesNothingEndsIt() async throws {
        let (bench, _, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let late = BrowserAccessTokenProvider(clientID: "dynamic.none", patience: 1) { _ in }
        #expect(try await tokenError(late, endpoint) == .signInRequired)
        struct NoBrowser: Error {}
        let none = BrowserAccessTokenProvider(registeringAs: "Player") { _ in throw NoBrowser() }
        #expect(try await tokenError(none, endpoint) == .unknown)
        let (opened, continuation) = AsyncStream.makeStream(of: Void.self)
        let cancelled = BrowserAccessTokenProvider(registeringAs: "Player") { _ in continuation.yield() }
        let task = Task { try await tokenError(cancelled, endpoint) }
        for await _ in opened { break }
        task.cancel()
        #expect(try await task.value == .cancelled)
        try await endpoint.tokens.withExclusiveAccess { _ in }
    }
}
