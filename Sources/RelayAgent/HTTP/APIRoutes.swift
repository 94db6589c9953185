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

    /// All routes. The order is that of the documentation.
    var all: [APIRoute] {
        [
            APIRoute(.get, "/v1", .anybody) { try $0.json(about()) },
            APIRoute(.get, "/openapi.yaml", .anybody) { _ in
                APIExchange.response(OpenAPIDocument.text, "application/yaml", .ok)
            },
            APIRoute(.get, "/v1/devices", .scope(.devices), devices),
            APIRoute(.get, "/v1/devices/{device}", .scope(.devices), device),
            APIRoute(.post, "/v1/endpoints/{endpoint}/approval", .owner, approve),
            APIRoute(.post, "/v1/endpoints/{endpoint}/revocation", .owner, revoke),
            APIRoute(.post, "/v1/invitations", .owner, invite),
            APIRoute(.post, "/v1/launches", .scope(.launch), launch),
            APIRoute(.post, "/v1/calls", .scope(.call), call),
            APIRoute(.get, "/v1/commands", .own, commands),
            APIRoute(.get, "/v1/commands/{id}", .own, command),
            APIRoute(.delete, "/v1/commands/{id}", .own, cancel),
            APIRoute(.get, "/v1/events", .own, stream),
            APIRoute(.get, "/v1/audit", .scope(.audit), audit),
            APIRoute(.get, "/v1/tokens", .owner, tokens),
            APIRoute(.post, "/v1/tokens", .owner, addToken),
            APIRoute(.delete, "/v1/tokens/{id}", .owner, removeToken),
        ]
    }

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
    private func perform<Command: DeviceCommand>(_ command: Command) async throws -> Command.Result {
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
    private func audited<Result: Sendable>(
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

    // MARK: Devices

    private struct About: Encodable {
        var version: String
        var schema: Int
        var instance: String
        /// The id of this device's endpoint.
        var endpoint: String?
        /// Its fingerprint words.
        var words: String?
    }

    private func about() -> About {
        let accounts = local.platform.accounts
        return About(
            version: version,
            schema: JSONText.schema,
            instance: instance,
            endpoint: accounts.endpoint(of: local.account).map { "\($0)" },
            words: (try? accounts.fingerprint(of: local.account)).map { "\($0)" }
        )
    }

    private func devices(_ exchange: APIExchange) async throws -> Response {
        var result = try await perform(Devices(showsAll: exchange.query("all") == "true"))
        result.devices.removeAll { !exchange.principal.sees($0.id) }
        result.endpoints?.removeAll { !exchange.principal.sees($0.device) }
        return try exchange.json(result)
    }

    private struct OneDevice: Encodable {
        var device: DeviceResult
        var endpoints: [EndpointResult]
        var current: Bool
    }

    private func device(_ exchange: APIExchange) async throws -> Response {
        let result = try await perform(Devices(showsAll: true))
        let system = try await local.target(try exchange.parameter("device")).0
        try exchange.principal.require(.devices, .init(device: "\(system.id)"))
        guard let device = result.devices.first(where: { $0.id == "\(system.id)" }) else {
            throw AgentError("notFound", "the device publishes no app now: see `relay devices --all`", .notFound)
        }
        let endpoints = (result.endpoints ?? []).filter { $0.device == device.id }
        return try exchange.json(OneDevice(device: device, endpoints: endpoints, current: result.current))
    }

    /// The whole id of an endpoint. A name can be ambiguous, and the API cannot ask which device is meant.
    private func endpoint(_ exchange: APIExchange) throws -> String {
        let id = try exchange.parameter("endpoint")
        guard EndpointID(id) != nil else { throw AgentError("idInvalid", "give the whole id of an endpoint", .usage) }
        return id
    }

    private func approve(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let id = try endpoint(exchange)
        return try await audited(exchange, "approve", device: id) {
            (try exchange.json(try await perform(Approve(target: id))), nil, "approved")
        }
    }

    private func revoke(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let id = try endpoint(exchange)
        return try await audited(exchange, "revoke", device: id) {
            (try exchange.json(try await perform(Revoke(target: id))), nil, "revoked")
        }
    }

    private func invite(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        return try await audited(exchange, "invite") {
            (try exchange.json(try await perform(Invite()), status: .created), nil, "invited")
        }
    }

    // MARK: Commands

    private static let launchFields: Set<String> = ["device", "app", "uri", "fallback", "prefer", "ttl"]

    private func launch(_ exchange: APIExchange) async throws -> Response {
        let bytes = try await exchange.bytes()
        let body = try APIBody(bytes, fields: Self.launchFields)
        var launch = try Launch(
            target: try body.target(),
            uri: try body.required("uri"),
            fallback: try body.optional("fallback"),
            preferred: try body.optional("prefer") ?? [],
            wait: nil,
            life: try body.seconds("ttl", in: 1...Double(28 * 86_400))
        )
        launch.key = try exchange.submissionKey(bytes)
        (launch.wait, launch.ending) = try exchange.preference()
        let schemes = Set([launch.uri.scheme, launch.fallback?.scheme].compactMap { $0?.lowercased() })
        launch.permit = { system in try exchange.principal.require(.launch, .init(device: "\(system.id)", schemes: schemes)) }
        return try await audited(exchange, "launch", subject: launch.uri.scheme) {
            let result = try await perform(launch)
            guard result.status != "succeeded" else { return (try exchange.json(result), result.device, result.status) }
            let headers: HTTPFields = [.location: "/v1/commands/\(result.command)"]
            return (try exchange.json(result, status: .accepted, headers: headers), result.device, result.status)
        }
    }

    private func call(_ exchange: APIExchange) async throws -> Response {
        guard exchange.request.header("Idempotency-Key") == nil else {
            throw AgentError(
                "usage",
                "a call may run twice if it is repeated, so it takes no Idempotency-Key; send a message instead",
                .usage
            )
        }
        let body = try await exchange.body(fields: ["device", "app", "service", "message", "timeout"])
        let timeout = try body.seconds("timeout", in: 0.1...600) ?? LocalDevice.patience
        var call = Call(target: try body.target(), service: try body.required("service"), timeout: timeout)
        let message = try Call.message(try body.source(of: "message"), "the message")
        let service = call.service
        call.permit = { device in try exchange.principal.require(.call, .init(device: device, service: service)) }
        return try await audited(exchange, "call", subject: service) { [call] in
            let result = try await perform(SingleCall(call: call, message: message))
            return (try exchange.json(result), result.device, "answered")
        }
    }

    private func mayRead(_ command: String, _ exchange: APIExchange) async throws -> Bool {
        guard case .token(let token) = exchange.principal, !token.scopes.contains(.commands) else { return true }
        return try await local.submitted(by: exchange.principal.id).contains(command)
    }

    /// The commands that the sender of a request may read.
    private func readable(_ exchange: APIExchange) async throws -> CommandList.Result {
        var list = try await perform(CommandList())
        guard case .token(let token) = exchange.principal, !token.scopes.contains(.commands) else { return list }
        let own = try await local.submitted(by: exchange.principal.id)
        list.commands.removeAll { !own.contains($0.id) }
        return list
    }

    private static let pageSize = 100

    private func commands(_ exchange: APIExchange) async throws -> Response {
        var list = try await readable(exchange)
        if let after = exchange.query("after") {
            guard let place = list.commands.firstIndex(where: { $0.id == after }) else {
                throw AgentError("notFound", "there is no command '\(DisplayText.sanitized(after))' to go on after", .notFound)
            }
            list.commands.removeFirst(place + 1)
        }
        list.commands = Array(list.commands.prefix(Self.pageSize))
        return try exchange.json(list)
    }

    private func entry(_ exchange: APIExchange) async throws -> CommandList.Entry {
        // What is stored needs no relay.
        guard let id = CommandID(try exchange.parameter("id")), let entry = try await CommandList.entry(id, on: local),
            try await mayRead(entry.id, exchange)
        else { throw AgentError("notFound", "there is no such command here: see `relay commands`", .notFound) }
        return entry
    }

    private func command(_ exchange: APIExchange) async throws -> Response { try exchange.json(try await entry(exchange)) }

    private func cancel(_ exchange: APIExchange) async throws -> Response {
        // A malformed id says so.
        let cancel = try Cancel(id: try exchange.parameter("id"))
        let entry = try await entry(exchange)
        return try await audited(exchange, "cancel") {
            (try exchange.json(try await perform(cancel)), entry.endpoint, "cancelled")
        }
    }

    // MARK: Access

    private struct AuditPage: Encodable {
        var entries: [AgentStore.AuditEntry]
    }

    private func audit(_ exchange: APIExchange) async throws -> Response {
        let before = exchange.query("after").map { Int64($0) }
        if case .some(.none) = before { throw AgentError("usage", "after is the sequence of an entry", .usage) }
        return try exchange.json(AuditPage(entries: try await store.audit(before: before ?? nil, limit: Self.pageSize)))
    }

    private func tokens(_ exchange: APIExchange) async throws -> Response {
        try exchange.json(TokenList.Result(tokens: try await store.tokens().map(TokenResult.init)))
    }

    private func addToken(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["name", "scopes", "devices", "schemes", "services", "expires"])
        let token = try APIToken(
            name: try body.required("name"),
            scopes: try body.required("scopes"),
            devices: try body.optional("devices"),
            schemes: try body.optional("schemes"),
            services: try body.optional("services"),
            life: try body.seconds("expires", in: 60...(APIToken.longestLife / .seconds(1)))
        )
        return try await audited(exchange, "token add") {
            let (text, digest) = APIToken.secret()
            try await store.add(token, digest: digest)
            var result = TokenResult(token)
            result.token = text
            return (try exchange.json(TokenAdd.Result(result), status: .created), nil, "added")
        }
    }

    private func removeToken(_ exchange: APIExchange) async throws -> Response {
        let id = try exchange.parameter("id")
        return try await audited(exchange, "token remove") {
            guard try await store.removeToken(id) else {
                throw AgentError("notFound", "there is no such token: relay token list", .notFound)
            }
            events.tokenRemoved()
            return (try exchange.json(TokenRemove.Result(removed: id)), nil, "removed")
        }
    }

    // MARK: Events

    private func stream(_ exchange: APIExchange) async throws -> Response {
        try EventStream(log: events, instance: instance, principal: exchange.principal, store: store, local: local).response(
            to: exchange.request
        )
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
