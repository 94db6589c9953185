// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// The browser of a user at the pages of a relay's own issuer, over plain HTTP. It keeps cookies as browsers do: they go to all ports of their
/// host, and to their path alone. It follows no redirect but the one that begins a visit. For tests only.
package final class SignInBrowser: Sendable {
    package struct Page: Sendable {
        package var status: Int
        /// In lower case.
        package var headers: [(name: String, value: String)]
        package var text: String

        /// Without the path of the visit.
        package var location: String? { fullLocation.map { Visit.of($0)?.place ?? $0 } }

        package var fullLocation: String? { headers.first { $0.name == "location" }?.value }

        /// The value of a form's hidden field.
        package func field(_ name: String) -> String? {
            guard let start = text.firstRange(of: "name=\"\(name)\" value=\"") else { return nil }
            return String(text[start.upperBound...].prefix { $0 != "\"" }).replacing("&amp;", with: "&")
        }
    }

    private struct Cookie {
        var name: String
        var value: String
        var path: String

        /// RFC 6265 §5.1.4.
        func goes(to place: Substring) -> Bool {
            place == path || place.hasPrefix(path.hasSuffix("/") ? path : path + "/")
        }
    }

    /// A place at the path of a visit.
    private enum Visit {
        private static let start = "/auth/at/"
        static let keyCharacters = 22

        static func of(_ location: String) -> (path: String, place: String)? {
            guard location.hasPrefix(start) else { return nil }
            let key = location.dropFirst(start.count).prefix { $0 != "/" }
            return (start + key, "/auth" + location.dropFirst(start.count + key.count))
        }
    }

    package struct Failed: Error {
        package var message: String
    }

    package static let password = "correct horse battery"

    private let origin: String
    private let cookies = Mutex<[Cookie]>([])
    /// The path of the last visit, such as `/auth/at/…`.
    private let visit = Mutex("")
    private let formCode = Mutex("")

    /// - Parameter origin: The relay's, such as `http://127.0.0.1:8080`.
    package init(origin: String) { self.origin = origin }

    // MARK: What a user does

    /// Opens a set-up link, sets a password, and is signed in.
    package func setUp(_ link: String, password: String = password) async throws {
        _ = try await get(link)
        _ = try await get("/auth/setup")
        let page = try await post("/auth/setup", ["password": password, "repeated": password])
        guard page.location == "/auth/account" else { throw Failed(message: "the password is not set: \(page.status)") }
    }

    /// Signs in with a password.
    /// - Returns: The answer: a redirect if the password is right.
    package func signIn(_ name: String, password: String = password) async throws -> Page {
        _ = try await get("/auth/login")
        return try await post("/auth/login", ["name": name, "password": password])
    }

    /// Opens the page for a device's code, and decides.
    package func decide(device page: URL, code: String, _ decision: String = "allow") async throws {
        _ = try await get(page.absoluteString)
        let shown = try await post("/auth/device", ["user_code": code])
        guard let request = shown.field("request") else { throw Failed(message: "the code is not accepted: \(shown.status)") }
        let answer = try await post("/auth/device/decision", ["request": request, "decision": decision])
        guard answer.status == 200 else { throw Failed(message: "the decision is not accepted: \(answer.status)") }
    }

    /// Opens the page of an app's request, or the app's own address that leads there, and decides.
    /// - Returns: The address that the issuer sends the browser to.
    package func decide(app page: URL, _ decision: String = "allow") async throws -> String {
        let shown = try await get(page.path.hasPrefix("/begin/") ? try await Self.opened(page) : page.absoluteString)
        guard let request = shown.field("request") else { throw Failed(message: "there is no request to decide: \(shown.status)") }
        let answer = try await post("/auth/authorize", ["request": request, "decision": decision])
        guard let location = answer.location else { throw Failed(message: "the decision is not accepted: \(answer.status)") }
        return location
    }

    /// Opens the address that an app gives to the browser.
    /// - Returns: The page that it leads to.
    package static func opened(_ address: URL) async throws -> String {
        guard let location = try await request("GET", address.absoluteString).location else {
            throw Failed(message: "the app's address leads nowhere")
        }
        return location
    }

    // MARK: Requests

    /// - Parameter url: A URL, or a path at the relay.
    package func get(_ url: String) async throws -> Page {
        let page = try await send("GET", url)
        guard let location = page.fullLocation, let begun = Visit.of(location), visit.withLock({ $0.isEmpty }) else { return keep(page) }
        visit.withLock { $0 = begun.path }
        return try await get(location)
    }

    /// Sends a form with the code of the last page.
    package func post(_ path: String, _ fields: [String: String]) async throws -> Page {
        var fields = fields
        fields["form_code"] = formCode.withLock { $0 }
        let body = fields.map { "\($0.key)=\($0.value.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")" }
        let headers = [("Origin", origin), ("Content-Type", "application/x-www-form-urlencoded")]
        return keep(try await send("POST", path, headers: headers, body: body.joined(separator: "&")))
    }

    /// The values of its cookies, by name. The names have no key of a visit.
    package var secrets: [String: String] {
        cookies.withLock { cookies in
            Dictionary(cookies.map { (String($0.name.dropLast(Visit.keyCharacters + 1)), $0.value) }) { $1 }
        }
    }

    /// The code of the last form.
    package var code: String { formCode.withLock { $0 } }

    /// The relay's address of a page in the visit.
    package func address(_ path: String) -> String { absolute(path) }

    /// What it sends of its cookies to a URL of the relay's host, at any port.
    package func cookies(for url: String) -> String {
        let path = URLComponents(string: url)?.percentEncodedPath ?? "/"
        return cookies.withLock { $0.filter { $0.goes(to: path[...]) }.map { "\($0.name)=\($0.value)" }.joined(separator: "; ") }
    }

    private func send(
        _ method: String,
        _ url: String,
        headers: [(String, String)] = [],
        body: String = ""
    ) async throws -> Page {
        let url = absolute(url)
        return try await Self.request(method, url, headers: [("Cookie", cookies(for: url))] + headers, body: body)
    }

    private func absolute(_ url: String) -> String {
        let place = url.hasPrefix(origin + "/") ? String(url.dropFirst(origin.count)) : url
        guard place.hasPrefix("/") else { return url }
        let visit = visit.withLock { $0 }
        guard !visit.isEmpty, place.hasPrefix("/auth/"), Visit.of(place) == nil else { return origin + place }
        return origin + visit + place.dropFirst("/auth".count)
    }

    private func keep(_ page: Page) -> Page {
        for cookie in page.headers where cookie.name == "set-cookie" {
            let parts = cookie.value.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            let pair = (parts.first ?? "").split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard pair.count == 2 else { continue }
            let path = parts.first { $0.hasPrefix("Path=") }.map { String($0.dropFirst(5)) } ?? "/"
            cookies.withLock { cookies in
                cookies.removeAll { $0.name == pair[0] && $0.path == path }
                if !parts.contains("Max-Age=0") { cookies.append(Cookie(name: pair[0], value: pair[1], path: path)) }
            }
        }
        if let moved = page.fullLocation.flatMap(Visit.of) { visit.withLock { $0 = moved.path } }
        if let code = page.field("form_code") { formCode.withLock { $0 = code } }
        return page
    }

    /// Sends one request to a server at a loopback address.
    package static func request(
        _ method: String,
        _ url: String,
        headers: [(String, String)] = [],
        body: String = ""
    ) async throws -> Page {
        guard let components = URLComponents(string: url), components.scheme == "http", let host = components.host,
            let port = components.port
        else { throw Failed(message: "not a URL of a test: \(url)") }
        let target = url.dropFirst("http://\(host):\(port)".count)
        let lines =
            ["\(method) \(target.isEmpty ? "/" : target) HTTP/1.1", "Host: \(host):\(port)", "Connection: close"]
            + ["Content-Length: \(body.utf8.count)"] + headers.filter { !$0.1.isEmpty }.map { "\($0.0): \($0.1)" }
        return try parse(try await send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body, host: host, port: port))
    }

    /// Sends bytes, and reads until the server closes the connection.
    package static func send(_ text: String, host: String = "127.0.0.1", port: Int) async throws -> String {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: host, port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    // Sent by the event loop: on a busy machine, a task may run only after the server's time limit for a request.
                    try channel.pipeline.syncOperations.addHandler(SendWhenConnected(ByteBuffer(string: text)))
                    return try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, _ in
            var all = ByteBuffer()
            // A server that rejects a request may reset the connection behind its answer.
            do { for try await part in inbound { all.writeImmutableBuffer(part) } } catch  where all.readableBytes > 0 {}
            return String(buffer: all)
        }
    }

    private static func parse(_ answer: String) throws -> Page {
        guard let end = answer.firstRange(of: "\r\n\r\n") else { throw Failed(message: "the answer has no head") }
        let lines = answer[..<end.lowerBound].split(separator: "\r\n")
        guard let first = lines.first, let status = first.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
            throw Failed(message: "the answer has no status")
        }
        let headers = lines.dropFirst().compactMap { line -> (name: String, value: String)? in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            return (line[..<colon].lowercased(), line[line.index(after: colon)...].trimmingCharacters(in: .whitespaces))
        }
        return Page(status: status, headers: headers, text: String(answer[end.upperBound...]))
    }
}

private final class SendWhenConnected: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let bytes: ByteBuffer

    init(_ bytes: ByteBuffer) { self.bytes = bytes }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        context.fireChannelActive()
    }
}
