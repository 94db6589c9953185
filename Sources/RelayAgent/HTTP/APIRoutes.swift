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
    let events: EventLog
    /// The random name of this agent's process.
    let instance: String
    let version: String

    /// How many entries a page of a list has.
    static let pageSize = 100

    /// All routes. The order is that of the documentation.
    var all: [APIRoute] { aboutRoutes + deviceRoutes + commandRoutes + eventRoutes + accessRoutes }

    /// - Parameters:
    ///   - needsToken: Whether each request needs a token. Otherwise one without a token is the owner's.
    ///   - listener: The TCP address that is served; `nil` for the socket.
    func router(needsToken: Bool, listener: APIListener? = nil) -> Router<APIContext> {
        let router = Router(context: APIContext.self)
        router.add(middleware: APIErrors(listener: listener))
        for route in all {
            let parts = route.path.split(separator: "/")  // ASCII only
            let path = parts.map { $0.utf8.first == UInt8(ascii: "{") ? ":\($0.dropFirst().dropLast())" : String($0) }
            router.on(RouterPath("/" + path.joined(separator: "/")), method: route.method) { request, context in
                let principal = try await principal(of: request, needsToken: needsToken)
                switch route.access {
                case .anybody, .own: break
                case .scope(let scope): try principal.require(scope)
                case .owner: try principal.requireOwner()
                }
                return try await route.handle(APIExchange(request: request, context: context, principal: principal))
            }
        }
        return router
    }

    /// A token that is sent limits its sender, also on the socket.
    private func principal(of request: Request, needsToken: Bool) async throws -> Principal {
        guard let value = request.headers[.authorization] else {
            guard needsToken else { return .owner }
            throw APIRefusal(
                401,
                AgentError("tokenMissing", "send Authorization: Bearer TOKEN; make one: relay token add NAME", .notSignedIn)
            )
        }
        let parts = value.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer",
            let token = try await store.token(APIToken.digest(of: parts[1].trimmingCharacters(in: .whitespaces)))
        else {
            throw APIRefusal(401, AgentError("tokenInvalid", "the token is unknown, expired or removed: relay token list", .notSignedIn))
        }
        return .token(token)
    }

    /// Runs a command. Its failure says what it says on the command line.
    func perform<Command: DeviceCommand>(_ command: Command) async throws -> Command.Result {
        guard local.isJoined else { throw AgentError.joiningUnfinished }
        do {
            return try await command.run(on: local)
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
    var listener: APIListener?

    func handle(
        _ request: Request,
        context: APIContext,
        next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        do {
            // A page of the Internet whose name leads to this machine has another host.
            if let listener, !listener.serves(request.head.authority ?? "") {
                throw APIRefusal(421, AgentError("hostRefused", "this server is \(listener.address)", .usage))
            }
            // A page in a browser has no business here: it could be any page.
            guard request.headers[.origin] == nil else {
                throw APIRefusal(403, AgentError("originRefused", "pages of a browser may not use this API", .declined))
            }
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

    private static func response(_ problem: APIProblem) throws -> Response {
        var headers = HTTPFields()
        if let pause = problem.retryAfter { headers[.retryAfter] = "\(pause)" }
        if problem.status == 401 { headers[.wwwAuthenticate] = "Bearer" }
        let text = DisplayText.escaped(json: try JSONText.line(problem))
        return APIExchange.response(text, APIProblem.mediaType, .init(code: problem.status), headers)
    }
}
