// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// The local console: its files, its one-time keys, and its sessions.
extension APIRoutes {
    var consoleRoutes: [APIRoute] {
        [
            APIRoute(.post, "/v1/console/keys", .owner, addKey),
            APIRoute(.get, "/v1/console/keys/{id}", .owner, key),
            APIRoute(.post, "/v1/console/sessions", .consoleKey, beginSession),
            APIRoute(.get, "/v1/console/sessions", .person, sessions),
            APIRoute(.delete, "/v1/console/sessions/{id}", .person, endSession),
        ]
    }

    /// The console's page and what it consists of.
    func addFiles(to router: Router<APIContext>) {
        for file in LocalConsole.files.values {
            let path = file.path == LocalConsole.index ? "/" : "/" + file.path
            let headers = Self.headers(of: file)
            let bytes = ByteBuffer(bytes: file.bytes)
            router.on(RouterPath(path), method: .get) { _, _ in
                Response(status: .ok, headers: headers, body: .init(byteBuffer: bytes))
            }
        }
    }

    private static func headers(of file: ConsoleFile) -> HTTPFields {
        var headers: HTTPFields = [.contentType: file.mediaType]
        for (name, value) in LocalConsole.headers {
            if let name = HTTPField.Name(name) { headers[name] = value }
        }
        return headers
    }

    private func addKey(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let console = console
        return try await audited(exchange, "console key") {
            let key = try console.addKey()
            let result = OpenConsole.Result(id: key.id, url: key.url, expires: key.expires, reused: key.hasWarning ? true : nil)
            return (try exchange.json(result, status: .created), nil, "made")
        }
    }

    private func key(_ exchange: APIExchange) async throws -> Response {
        let state = await console.key(try exchange.parameter("id"), within: try exchange.preference().wait)
        return try exchange.json(ConsoleKey.Result(state))
    }

    private struct NewSession: Encodable {
        var session: SessionResult
        var token: String
    }

    private struct SessionResult: Encodable {
        var id: String
        /// Whether the request has its token.
        var current: Bool
        var begun: Date
        var expires: Date

        init(_ session: ConsoleAccess.Session, current: Bool) {
            (id, begun, expires, self.current) = (session.id, session.begun, session.expires, current)
        }
    }

    private struct SessionPage: Encodable {
        var sessions: [SessionResult]
    }

    private func beginSession(_ exchange: APIExchange) async throws -> Response {
        let text: String = try await exchange.body(fields: ["key"]).required("key")
        let (session, token) = try console.exchange(text)
        try? await store.audit("console", "sign-in", device: nil, subject: nil, answer: "begun")
        return try exchange.json(NewSession(session: SessionResult(session, current: true), token: token), status: .created)
    }

    private func sessions(_ exchange: APIExchange) throws -> Response {
        let own = current(exchange)
        return try exchange.json(SessionPage(sessions: console.sessions.map { SessionResult($0, current: $0.id == own) }))
    }

    private func current(_ exchange: APIExchange) -> String? {
        guard case .console(let session) = exchange.principal else { return nil }
        return session.id
    }

    /// `current` is the session of the request.
    private func endSession(_ exchange: APIExchange) async throws -> Response {
        let name = try exchange.parameter("id")
        guard let id = name == "current" ? current(exchange) : name, console.end(id) else {
            throw AgentError("notFound", "there is no such session", .notFound)
        }
        try? await store.audit(exchange.principal.id, "sign-out", device: nil, subject: nil, answer: "ended")
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }
}
