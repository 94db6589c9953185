// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

/// Another user of the machine listens at a port of it, while a person uses the pages of a relay over plain HTTP. Browsers send the cookies of a
/// host to all its ports.
@Suite(.timeLimit(.minutes(10))) struct SharedHostAttackTests {
    /// The attacker's program. It answers each request with an empty page.
    private final class Listener: Sendable {
        private let requests = Mutex<[String]>([])
        private let channel = Mutex<(any Channel)?>(nil)

        var port: Int { channel.withLock { $0?.localAddress?.port } ?? 0 }

        /// What arrived, without the requests that were read before.
        func received() -> [String] {
            requests.withLock { requests in
                defer { requests = [] }
                return requests
            }
        }

        func cookies() -> [String] {
            received().flatMap { $0.split(separator: "\r\n") }.filter { $0.lowercased().hasPrefix("cookie:") }
                .map { $0.dropFirst("cookie:".count).trimmingCharacters(in: .whitespaces) }
        }

        init() async throws {
            let bound = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .childChannelInitializer { [self] channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(Handler { [self] text in requests.withLock { $0.append(text) } })
                    }
                }
                .bind(host: "127.0.0.1", port: 0).get()
            channel.withLock { $0 = bound }
        }

        func close() async throws { try await channel.withLock { $0 }?.close() }

        private final class Handler: ChannelInboundHandler {
            typealias InboundIn = ByteBuffer
            typealias OutboundOut = ByteBuffer

            private let keep: @Sendable (String) -> Void
            private var text = ""

            init(keep: @escaping @Sendable (String) -> Void) { self.keep = keep }

            func channelRead(context: ChannelHandlerContext, data: NIOAny) {
                text += String(buffer: unwrapInboundIn(data))
                guard text.contains("\r\n\r\n") else { return }
                keep(text)
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                let loop = NIOLoopBound(context, eventLoop: context.eventLoop)
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer))).whenComplete { _ in loop.value.close(promise: nil) }
            }
        }
    }

    private struct World {
        let relayd: RelaydProcess
        let listener: Listener
        let browser: SignInBrowser

        init() async throws {
            relayd = try await RelaydProcess()
            _ = try await relayd.start()
            _ = try await relayd.run("account", "add", "Anna")
            listener = try await Listener()
            browser = SignInBrowser(origin: relayd.origin)
        }

        /// Whether cookies, wherever they are sent, show an account.
        func signIn(_ cookies: [String], at paths: [String]) async throws -> Bool {
            for cookie in cookies {
                for path in paths {
                    let page = try await SignInBrowser.request("GET", relayd.origin + path, headers: [("Cookie", cookie)])
                    if page.text.contains("Anna") { return true }
                }
            }
            return false
        }

        func end() async throws {
            try await listener.close()
            #expect(try await relayd.stop() == 0)
        }
    }

    @Test func programAtAnotherPortGetsNoCookie() async throws {
        let world = try await World()
        let (browser, listener) = (world.browser, world.listener)
        let link = try await world.relayd.run("account", "set-up", "Anna")
        _ = try await browser.get(link)
        func visitAttacker(_ path: String) async throws { _ = try await browser.get("http://127.0.0.1:\(listener.port)\(path)") }
        let paths = ["/", "/auth", "/auth/account", "/auth/setup", "/auth/at/", "/auth/at/\(String(repeating: "A", count: 22))/account"]
        // While the person sets up how to sign in, and when it is done.
        for path in paths { try await visitAttacker(path) }
        try await browser.setUp(link)
        for path in paths { try await visitAttacker(path) }
        #expect(try await browser.get("/auth/account").text.contains("Anna"))
        let seen = listener.received()
        #expect(seen.count == 2 * paths.count)
        #expect(!seen.contains { $0.lowercased().contains("cookie:") }, "\(seen)")
        try await world.end()
    }

    @Test func noRequestLeadsToAnotherPortWithoutAClick() async throws {
        let world = try await World()
        let (browser, listener) = (world.browser, world.listener)
        try await browser.setUp(try await world.relayd.run("account", "set-up", "Anna"))
        let redirect = "http://127.0.0.1:\(listener.port)/auth/account"
        struct Registered: Decodable {
            var id: String
            enum CodingKeys: String, CodingKey { case id = "client_id" }
        }
        let answer = try await SignInBrowser.request(
            "POST",
            world.relayd.origin + "/auth/register",
            headers: [("Content-Type", "application/json")],
            body: #"{"redirect_uris":["\#(redirect)"]}"#
        )
        let client = try JSONDecoder().decode(Registered.self, from: Data(answer.text.utf8)).id
        func request(_ changes: [String: String]) -> String {
            let fields = [
                "response_type": "code", "client_id": client, "redirect_uri": redirect, "code_challenge_method": "S256",
                "code_challenge": String(repeating: "A", count: 43),
            ]
            return "/auth/authorize?" + RouteRequest.encoded(fields.merging(changes) { $1 })
        }
        for changes in [["response_type": "token"], ["code_challenge": ""], ["code_challenge_method": "plain"], ["scope": "admin"]] {
            let page = try await browser.get(request(changes))
            #expect(page.status == 400 && page.fullLocation == nil, "\(changes)")
            // The person clicks.
            let found = try #require(page.text.firstMatch(of: /<a href="([^"]+)"/))
            _ = try await browser.get(String(found.1).replacing("&amp;", with: "&"))
        }
        for decision in ["allow", "deny"] {
            let url = try #require(URL(string: world.relayd.origin + request([:])))
            _ = try await browser.get(try await browser.decide(app: url, decision))
        }
        let seen = listener.received()
        #expect(seen.count == 6 && seen.allSatisfy { $0.hasPrefix("GET /auth/account?") })
        #expect(!seen.contains { $0.lowercased().contains("cookie:") || $0.lowercased().contains("referer:") }, "\(seen)")
        try await world.end()
    }

    /// The attacker chooses the address of the visit, so its cookies come to him, too.
    @Test func visitOfTheAttackersChoiceGivesNoSession() async throws {
        let world = try await World()
        let (browser, listener) = (world.browser, world.listener)
        try await browser.setUp(try await world.relayd.run("account", "set-up", "Anna"))
        let victim = SignInBrowser(origin: world.relayd.origin)
        let path = "/auth/at/\(Base64.url.encode((0..<16).map { _ in UInt8.random(in: .min ... .max) }))"
        _ = try await victim.get(world.relayd.origin + path + "/login")
        let signedIn = try await victim.post(path + "/login", ["name": "Anna", "password": SignInBrowser.password])
        #expect(signedIn.location == "/auth/account" && signedIn.fullLocation?.hasPrefix(path) == false)
        for place in ["/account", "/login", ""] { _ = try await victim.get("http://127.0.0.1:\(listener.port)\(path)\(place)") }
        let cookies = listener.cookies()
        // The cookie from before signing in came; it signs nobody in.
        #expect(!cookies.isEmpty)
        #expect(try await !world.signIn(cookies, at: ["/auth/account", path + "/account"]))
        #expect(try await victim.get("/auth/account").text.contains("Anna"))
        // An address without its cookie is of no use either, nor a cookie at another address.
        let address = victim.address("/auth/account")
        let own = victim.cookies(for: address)
        #expect(try await world.signIn([own], at: [String(address.dropFirst(world.relayd.origin.count))]))
        #expect(try await !world.signIn(["", cookies[0]], at: [String(address.dropFirst(world.relayd.origin.count))]))
        #expect(try await !world.signIn([own], at: ["/auth/account", path + "/account"]))
        try await world.end()
    }
}
