// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayProtocol

/// The routes of the API. Each makes the command that the command line makes, and answers with the same JSON.
struct APIRoutes: Sendable {
    let local: LocalDevice
    let store: AgentStore
    let board: AskBoard
    let grants: GrantBook
    let events: EventLog
    let webhooks: Webhooks
    let transfers: Transfers
    let console: ConsoleDoor
    /// The connection of an agent that polls; `nil` for one that is connected.
    let connection: RequestedConnection?
    /// The random name of this agent's process.
    let instance: String
    let version: String
    let downloads = Slots(mostDownloads)

    /// How many files are read at once.
    static let mostDownloads = 32
    /// How many entries a page of a list has.
    static let pageSize = 100

    /// All routes. The order is that of the documentation.
    var all: [APIRoute] {
        aboutRoutes + deviceRoutes + commandRoutes + messageRoutes + fileRoutes + transferRoutes + eventRoutes + webhookRoutes + askRoutes
            + accessRoutes + consoleRoutes + translationRoutes
    }

    /// The routes of one way in.
    func router(for door: APIDoor) -> Router<APIContext> {
        let router = Router(context: APIContext.self)
        let bounds = APIBounds()
        router.add(middleware: APIErrors(door: door))
        if case .console = door { addFiles(to: router) }
        for route in all {
            let parts = route.path.split(separator: "/")  // ASCII only
            let path = parts.map { part in
                if part == "{path}" { return "**" }
                return part.utf8.first == UInt8(ascii: "{") ? ":\(part.dropFirst().dropLast())" : String(part)
            }
            router.on(RouterPath("/" + path.joined(separator: "/")), method: route.method) { request, context in
                try door.checkOrigin(request)
                if route.access == .consoleKey {
                    guard case .console = door else { throw HTTPError(.notFound) }
                    return try await handle(
                        route,
                        APIExchange(request: request, context: context, principal: .stranger, door: door, bounds: bounds)
                    )
                }
                let principal = try await door.principal(of: request, store)
                switch route.access {
                case .anybody, .own, .consoleKey: break
                case .scope(let scope): try principal.require(scope)
                case .person: try principal.requirePerson()
                case .owner: try principal.requireOwner()
                }
                return try await handle(
                    route,
                    APIExchange(request: request, context: context, principal: principal, door: door, bounds: bounds)
                )
            }
        }
        return router
    }

    /// An agent that polls is connected until the answer is written.
    private func handle(_ route: APIRoute, _ exchange: APIExchange) async throws -> Response {
        guard let connection, route.access != .consoleKey else { return try await route.handle(exchange) }
        let use = await connection.use()
        var response = try await route.handle(exchange)
        let body = response.body
        response.body = .init(contentLength: body.contentLength) { writer in
            try await body.write(writer)
            withExtendedLifetime(use) {}
        }
        return response
    }

    /// Runs a command. Its failure says what it says on the command line.
    func perform<Command: DeviceCommand>(_ command: Command) async throws -> Command.Result {
        try await performing { try await command.run(on: local) }
    }

    /// Runs something with the device, with the failures of the command line.
    func performing<Result>(_ body: () async throws -> Result) async throws -> Result {
        guard local.isJoined else { throw AgentError.joiningUnfinished }
        do {
            return try await body()
        } catch let refusal as APIRefusal {
            throw refusal
        } catch {
            let failure = AgentError(error, new: local) ?? AgentError(error)
            throw AgentError(failure, at: try local.home.membership(), isJoined: true) ?? failure
        }
    }

    /// Runs what changes something, and writes it to the audit.
    func audited<Result: Sendable>(
        _ exchange: APIExchange,
        _ action: String,
        device: String? = nil,
        subject: String? = nil,
        _ body: () async throws -> (Result, device: String?, answer: String)
    ) async throws -> Result {
        do {
            let (result, found, answer) = try await body()
            try? await store.audit(exchange.principal.id, action, device: found ?? device, subject: subject, answer: answer)
            return result
        } catch {
            let code = (error as? APIRefusal)?.failure.code ?? AgentError(error).code
            try? await store.audit(exchange.principal.id, action, device: device, subject: subject, answer: code)
            throw error
        }
    }
}

extension Request {
    /// A field of the head, by its name.
    func header(_ name: String) -> String? { HTTPField.Name(name).flatMap { headers[$0] } }
}

/// A request that is refused before it is a command.
struct APIRefusal: Error {
    var status: Int
    var failure: AgentError
    var retryAfter: Int?

    init(_ status: Int, _ failure: AgentError, retryAfter: Int? = nil) {
        (self.status, self.failure, self.retryAfter) = (status, failure, retryAfter)
    }
}

/// Answers every failure as RFC 9457 says.
struct APIErrors: RouterMiddleware {
    let door: APIDoor

    func handle(
        _ request: Request,
        context: APIContext,
        next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        do {
            try door.checkHost(request)
            return try await next(request, context)
        } catch let refusal as APIRefusal {
            return try Self.response(APIProblem(refusal.failure, status: refusal.status, retryAfter: refusal.retryAfter))
        } catch let error as HTTPError {
            let status = error.status.code
            let failure = AgentError(status == 404 ? "noRoute" : "badRequest", "\(error.status.reasonPhrase): see /openapi.yaml", .usage)
            return try Self.response(APIProblem(failure, status: status))
        } catch {
            return try Self.response(APIProblem(AgentError(error)))
        }
    }

    static func response(_ problem: APIProblem, _ more: HTTPFields = [:]) throws -> Response {
        var headers = more
        if let pause = problem.retryAfter { headers[.retryAfter] = "\(pause)" }
        if problem.status == 401 { headers[.wwwAuthenticate] = "Bearer" }
        let text = DisplayText.escaped(json: try JSONText.line(problem))
        return APIExchange.response(text, APIProblem.mediaType, .init(code: problem.status), headers)
    }
}
