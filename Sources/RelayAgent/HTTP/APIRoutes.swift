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
    /// The random name of this agent's process.
    let instance: String
    let version: String

    func router() -> Router<APIContext> {
        let router = Router(context: APIContext.self)
        router.add(middleware: APIErrors())
        let v1 = router.group("v1")
        v1.get { [self] _, _ in try json(about()) }
        v1.get("devices") { [self] request, _ in
            try json(try await perform(Devices(showsAll: request.uri.queryParameters["all"] == "true")))
        }
        v1.post("launches") { [self] request, _ in try await launch(request) }
        v1.post("calls") { [self] request, _ in try await call(request) }
        v1.get("commands") { [self] _, _ in try json(try await perform(CommandList())) }
        v1.get("commands/:id") { [self] request, context in
            let list = try await perform(CommandList())
            let id = try context.parameters.require("id")
            guard let entry = list.commands.first(where: { $0.id == id }) else { throw Self.noCommand }
            return try json(entry)
        }
        v1.delete("commands/:id") { [self] _, context in
            try json(try await perform(Cancel(id: try context.parameters.require("id"))))
        }
        v1.post("invitations") { [self] request, _ in
            _ = try await body(request, fields: [])
            return try json(try await perform(Invite()), status: .created)
        }
        v1.post("endpoints/:endpoint/approval") { [self] request, context in
            _ = try await body(request, fields: [])
            return try json(try await perform(Approve(target: try Self.endpoint(context))))
        }
        v1.post("endpoints/:endpoint/revocation") { [self] request, context in
            _ = try await body(request, fields: [])
            return try json(try await perform(Revoke(target: try Self.endpoint(context))))
        }
        return router
    }

    // MARK: Commands

    /// Runs a command. Its failure says what it says on the command line.
    private func perform<Command: DeviceCommand>(_ command: Command) async throws -> Command.Result {
        guard local.isJoined else { throw AgentError.joiningUnfinished }
        do {
            return try await command.run(on: local)
        } catch {
            let failure = AgentError(error, new: local) ?? AgentError(error)
            throw AgentError(failure, at: try local.home.membership(), isJoined: true) ?? failure
        }
    }

    private static let launchFields: Set<String> = ["device", "app", "uri", "fallback", "prefer", "ttl"]

    private func launch(_ request: Request) async throws -> Response {
        let bytes = try await bytes(of: request)
        let body = try APIBody(bytes, fields: Self.launchFields)
        var launch = try Launch(
            target: try body.target(),
            uri: try body.required("uri"),
            fallback: try body.optional("fallback"),
            preferred: try body.optional("prefer") ?? [],
            wait: nil,
            life: try body.seconds("ttl", in: 1...Double(28 * 86_400))
        )
        let preference = try Preference(request)
        launch.key = try Self.key(of: request, bytes)
        launch.wait = preference.wait ?? .zero
        launch.ending = preference.ending
        let result = try await perform(launch)
        guard result.status != "succeeded" else { return try json(result) }
        return try json(result, status: .accepted, headers: [.location: "/v1/commands/\(result.command)"])
    }

    private func call(_ request: Request) async throws -> Response {
        guard request.headers[.idempotencyKey] == nil else {
            throw AgentError(
                "usage",
                "a call may run twice if it is repeated, so it takes no Idempotency-Key; send a message instead",
                .usage
            )
        }
        let body = try await body(request, fields: ["device", "app", "service", "message", "timeout"])
        let timeout = try body.seconds("timeout", in: 0.1...600) ?? LocalDevice.patience
        let call = Call(target: try body.target(), service: try body.required("service"), timeout: timeout)
        let message = try Call.message(try body.source(of: "message"), "the message")
        return try json(try await perform(SingleCall(call: call, message: message)))
    }

    // MARK: Requests and answers

    /// The largest body, in bytes.
    static let largestBody = 1 << 20

    private func body(_ request: Request, fields: Set<String>) async throws -> APIBody {
        try APIBody(try await bytes(of: request), fields: fields)
    }

    private func bytes(of request: Request) async throws -> [UInt8] {
        let type = request.headers[.contentType]?.split(separator: ";").first.map { $0.trimmingCharacters(in: .whitespaces).lowercased() }
        guard type == "application/json" else {
            throw APIRefusal(415, AgentError("contentType", "send Content-Type: application/json", .usage))
        }
        do {
            return Array(buffer: try await request.body.collect(upTo: Self.largestBody))
        } catch is NIOTooManyBytesError {
            throw APIRefusal(413, AgentError("bodyTooLarge", "the body has more than \(Self.largestBody) bytes", .usage))
        }
    }

    /// The key of a request, with the digest of what it asks for.
    private static func key(of request: Request, _ body: [UInt8]) throws -> SubmissionKey? {
        guard let key = request.headers[.idempotencyKey] else { return nil }
        guard (1...255).contains(key.utf8.count) else {
            throw AgentError("usage", "an Idempotency-Key has 1 to 255 characters", .usage)
        }
        return SubmissionKey(key, of: "owner", request: Array("\(request.uri.path)\n".utf8) + body)
    }

    private static let noCommand = AgentError("notFound", "there is no such command here: see `relay commands`", .notFound)

    /// The whole id of an endpoint: names may be ambiguous, and nobody is asked here.
    private static func endpoint(_ context: APIContext) throws -> String {
        let id = try context.parameters.require("endpoint")
        guard EndpointID(id) != nil else { throw AgentError("idInvalid", "give the whole id of an endpoint", .usage) }
        return id
    }

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

    private func json(_ result: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) throws -> Response {
        let text = if let result = result as? any AgentResult { try result.json() } else { try JSONText.line(result) }
        return Self.response(DisplayText.escaped(json: text), "application/json", status, headers)
    }

    static func response(_ text: String, _ type: String, _ status: HTTPResponse.Status, _ more: HTTPFields = [:]) -> Response {
        var headers = more
        headers[.contentType] = type
        headers[.cacheControl] = "no-store"
        headers[.xContentTypeOptions] = "nosniff"
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(string: text + "\n")))
    }
}

extension HTTPField.Name {
    // The names are constants that are valid.
    static var idempotencyKey: Self { Self("Idempotency-Key") ?? .authorization }
    static var prefer: Self { Self("Prefer") ?? .authorization }
}

/// What a client prefers (RFC 7240): `wait=30` waits for the outcome, `wait=30; until=accepted` for the relay alone.
private struct Preference {
    static let longest = 60

    var wait: Duration?
    var ending = Launch.Ending.stored

    init(_ request: Request) throws {
        guard let text = request.headers[.prefer] else { return }
        for preference in text.split(separator: ",") {
            let parts = preference.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            guard let first = parts.first, first.hasPrefix("wait=") else { continue }
            guard let seconds = Int(first.dropFirst(5)), (0...Self.longest).contains(seconds) else {
                throw AgentError("usage", "Prefer: wait takes 0 to \(Self.longest) seconds", .usage)
            }
            wait = .seconds(seconds)
            ending = parts.dropFirst().contains("until=accepted") ? .accepted : .outcome
        }
    }
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
    func handle(
        _ request: Request,
        context: APIContext,
        next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        do {
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
        let text = DisplayText.escaped(json: try JSONText.line(problem))
        return APIRoutes.response(text, APIProblem.mediaType, .init(code: problem.status), headers)
    }
}
