// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import Synchronization

/// The addresses on this machine that a sign-in with a browser uses (RFC 8252 §7.3). `/begin/…` leads the browser to the issuer, once. The
/// issuer sends it back to `/signed-in`, with one response. Other requests get an error, and do not end the wait.
///
/// Other users of this machine can connect, too. On Linux their requests are refused. They see the arguments of the program that opens the
/// browser, so these contain only an address that works once. A second request for it ends the sign-in.
final class LoopbackRedirect: Sendable {
    static let path = "/signed-in"
    /// The time limit of a request, in milliseconds. A browser sends it at once.
    static let requestTime: Int64 = 1_000
    /// The maximum number of connections without a request at a time. For a further one, the oldest is closed.
    static let maximumConnections = 16

    enum Response: Hashable, Sendable {
        case code(Secret<String>)
        /// The value of `error`.
        case refused(String)
        /// The address that works once was opened by a second program.
        case openedTwice
        /// The app could not open it.
        case notOpened
        case cancelled
    }

    /// What the browser shows at the end.
    enum Ending: Hashable, Sendable {
        case signedIn
        case failed(String)
    }

    let uri: String
    private let port: Int
    private let server: any Channel
    private let answer: PendingAnswer<Response>
    private let desk: RedirectDesk

    private init(_ server: any Channel, _ answer: PendingAnswer<Response>, _ desk: RedirectDesk, port: Int) {
        self.server = server
        self.answer = answer
        self.desk = desk
        self.port = port
        uri = "http://127.0.0.1:\(port)\(Self.path)"
    }

    /// - Parameters:
    ///   - port: The port; 0 for any that is free.
    ///   - timeout: How long it waits for the response, in milliseconds.
    static func listen(for check: AuthorizationResponseCheck, port: Int = 0, timeout: Int64) async throws -> LoopbackRedirect {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = PendingAnswer<Response>(on: loop, timeout: timeout)
        let desk = RedirectDesk(check: check)
        let server: any Channel
        do {
            server = try await ServerBootstrap(group: loop)
                .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(RedirectHandler(desk: desk, answer: answer))
                    }
                }
                .bind(host: "127.0.0.1", port: port).get()
        } catch {
            answer.end(.failure(.cancelled))
            throw IssuerClientError.portInUse(port)
        }
        answer.whenEnded { server.close(promise: nil) }
        return LoopbackRedirect(server, answer, desk, port: server.localAddress?.port ?? 0)
    }

    /// The address that leads a browser to a page, once.
    func begin(at page: URL) -> URL? { URL(exactly: "http://127.0.0.1:\(port)\(desk.begin(at: page.absoluteString))") }

    /// Waits for the response. The browser waits, too, until `tell`.
    func response() async throws(IssuerClientError) -> Response {
        do throws(RequestFailure) {
            return try await answer.value()
        } catch {
            throw error == .cancelled ? .cancelled : .expired
        }
    }

    /// Ends the wait without an answer of the issuer.
    func end(_ response: Response) { answer.end(.success(response)) }

    /// Shows the user in the browser how the sign-in ended.
    func tell(_ ending: Ending) async {
        guard let browser = desk.takeBrowser() else { return }
        let words = PageWords(accepting: browser.languages)
        let page =
            switch ending {
            case .signedIn: RedirectPage("redirect.signedIn.title", words.text("redirect.signedIn.text"), words)
            case .failed(let why): RedirectPage("redirect.failed.title", words.text("redirect.failed.text", ["reason": why]), words)
            }
        try? await browser.channel.writeAndFlush(page.response(200))
        try? await browser.channel.close()
    }

    /// Stops listening.
    func stop() {
        answer.end(.failure(.cancelled))
        desk.takeBrowser()?.channel.close(promise: nil)
    }
}

/// What the connections of a sign-in share.
final class RedirectDesk: Sendable {
    private struct Begin {
        var path: String
        var page: String
        var wasOpened = false
    }

    /// A browser that waits for its page.
    struct Browser {
        var channel: any Channel
        /// The value of its `Accept-Language`.
        var languages: String?
    }

    private struct State {
        /// Connections without a whole request, the oldest first.
        var silent: [any Channel] = []
        var begin: Begin?
        /// The one that brought the response.
        var browser: Browser?
    }

    enum Outcome: Hashable, Sendable {
        case redirect(to: String)
        case response(LoopbackRedirect.Response)
        /// The wait goes on. The request gets this status.
        case other(status: Int)
    }

    private let check: AuthorizationResponseCheck
    private let state = Mutex(State())

    init(check: AuthorizationResponseCheck) { self.check = check }

    /// - Returns: The path of the address that leads to a page.
    func begin(at page: String) -> String {
        var random = SystemRandomNumberGenerator()
        let path = "/begin/" + Base64.url.encode(randomBytes(16, using: &random))
        state.withLock { $0.begin = Begin(path: path, page: page) }
        return path
    }

    func opened(_ channel: any Channel) {
        let oldest: (any Channel)? = state.withLock { state in
            state.silent.append(channel)
            return state.silent.count > LoopbackRedirect.maximumConnections ? state.silent.removeFirst() : nil
        }
        oldest?.close(promise: nil)
    }

    /// The connection has a whole request, or is closed.
    func isOver(_ channel: any Channel) { state.withLock { $0.silent.removeAll { $0 === channel } } }

    func outcome(of target: String) -> Outcome {
        let begin: Outcome? = state.withLock { state in
            guard let begin = state.begin, AuthorizationResponseCheck.isSame(target, begin.path) else { return nil }
            guard !begin.wasOpened else { return .response(.openedTwice) }
            state.begin?.wasOpened = true
            return .redirect(to: begin.page)
        }
        if let begin { return begin }
        return switch check.outcome(of: target) {
        case .code(let code): .response(.code(code))
        case .refused(let error): .response(.refused(error))
        case .other(let status): .other(status: status)
        }
    }

    func keep(_ browser: Browser) { state.withLock { $0.browser = browser } }

    func takeBrowser() -> Browser? {
        state.withLock { state in
            defer { state.browser = nil }
            return state.browser
        }
    }
}

private final class RedirectHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let desk: RedirectDesk
    private let answer: PendingAnswer<LoopbackRedirect.Response>
    private var reader: RedirectRequestReader?
    private var words = PageWords.english
    private var timer: Scheduled<Void>?

    init(desk: RedirectDesk, answer: PendingAnswer<LoopbackRedirect.Response>) {
        self.desk = desk
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        reader = RedirectRequestReader(authority: "127.0.0.1:\(context.channel.localAddress?.port ?? 0)")
        let channel = context.channel
        desk.opened(channel)
        timer = context.eventLoop.scheduleTask(in: .milliseconds(LoopbackRedirect.requestTime)) { channel.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.cancel()
        desk.isOver(context.channel)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let result = reader?.read(unwrapInboundIn(data).readableBytesView) else { return }
        if result == .incomplete { return }
        let languages = reader?.languages
        words = PageWords(accepting: languages)
        reader = nil
        timer?.cancel()
        desk.isOver(context.channel)
        guard LoopbackPeer.isOfThisUser(context.channel) else {
            return reply(403, "redirect.otherUser", context)
        }
        switch result {
        case .incomplete: return
        case .invalid(let status): reply(status, Self.unexpected, context)
        case .target(let target):
            switch desk.outcome(of: target) {
            case .other(let status): reply(status, Self.unexpected, context)
            case .redirect(let page): send(RedirectPage.redirect(to: page), context)
            case .response(.openedTwice):
                let answer = answer
                reply(410, "redirect.openedTwice", context) {
                    answer.end(.success(.openedTwice))
                }
            case .response(let response):
                // The user learns the outcome, which is not known yet.
                desk.keep(.init(channel: context.channel, languages: languages))
                answer.end(.success(response))
            }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private static let unexpected = "redirect.unexpected"

    private func reply(
        _ status: Int,
        _ key: String,
        _ context: ChannelHandlerContext,
        then: @escaping @Sendable () -> Void = {}
    ) {
        send(RedirectPage("failed.title", words.text(key), words).response(status), context, then: then)
    }

    private func send(_ response: ByteBuffer, _ context: ChannelHandlerContext, then: @escaping @Sendable () -> Void = {}) {
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(response)).whenComplete { _ in
            then()
            channel.close(promise: nil)
        }
    }
}

/// A page that the app itself shows in the browser. It looks like the pages of a relay's own issuer.
struct RedirectPage {
    private let title: String
    private let text: String
    private let language: PageLanguage

    /// - Parameters:
    ///   - title: The key of its heading.
    ///   - text: Text of an issuer may be part of it.
    init(_ title: String, _ text: String, _ words: PageWords) {
        self.title = words.text(title)
        self.text = text
        language = words.language
    }

    /// - Parameter status: The HTTP status.
    func response(_ status: Int) -> ByteBuffer {
        let body = """
            <!doctype html>
            <html lang="\(language.rawValue)">
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>\(Self.escape(title)) · \(PageParts.product)</title>
            <style>\(ConsoleFile.style.text)</style>
            \(PageParts.header(host: nil))
            <main><div class="card slim"><h1>\(Self.escape(title))</h1><p>\(Self.escape(text))</p></div></main>
            </html>

            """
        let fields = ["Content-Type: text/html; charset=utf-8", "Content-Language: \(language.rawValue)", "Vary: Accept-Language"]
        return Self.message(status, fields, body)
    }

    /// - Parameter page: A URL in visible ASCII.
    static func redirect(to page: String) -> ByteBuffer { message(302, ["Location: \(page)"], "") }

    private static func message(_ status: Int, _ fields: [String], _ body: String) -> ByteBuffer {
        let reasons = [
            200: "OK", 302: "Found", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 410: "Gone",
            431: "Request Header Fields Too Large",
        ]
        let styleHash = Data(Digest256(hashing: ConsoleFile.style.bytes).bytes).base64EncodedString()
        let head =
            ["HTTP/1.1 \(status) \(reasons[status] ?? "Bad Request")"] + fields + [
                "Content-Length: \(body.utf8.count)", "Connection: close", "Cache-Control: no-store",
                "Content-Security-Policy: default-src 'none'; style-src 'sha256-\(styleHash)'; frame-ancestors 'none'",
                "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff",
            ]
        return ByteBuffer(string: head.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }

    /// Text of an issuer may be part of a page.
    private static func escape(_ text: String) -> String {
        DisplayText.sanitized(text).replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}
