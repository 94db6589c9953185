// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayProtocol

/// One route of the API. All are in the table of `APIRoutes`, so that a test can compare them with `openapi.yaml`.
struct APIRoute: Sendable {
    /// Who may use it.
    enum Access: Hashable, Sendable {
        /// Any credential.
        case anybody
        case scope(APIScope)
        /// The route decides: it shows a token what is the token's own.
        case own
        /// The person, at this machine or in the console.
        case person
        /// The person at this machine.
        case owner
        /// Nobody yet: the route takes a one-time key. Only the console's listener has it.
        case consoleKey
    }

    var method: HTTPRequest.Method
    /// As in OpenAPI: `/v1/devices/{device}`. A last `{path}` stands for all further segments.
    var path: String
    var access: Access
    var handle: @Sendable (APIExchange) async throws -> Response

    init(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ access: Access,
        _ handle: @escaping @Sendable (APIExchange) async throws -> Response
    ) {
        (self.method, self.path, self.access, self.handle) = (method, path, access, handle)
    }
}

/// A request with its credential.
struct APIExchange: Sendable {
    let request: Request
    let context: APIContext
    let principal: Principal
    let door: APIDoor
    let bounds: APIBounds

    /// The largest body, in bytes.
    static let largestBody = 1 << 20
    /// The largest body of a call on the socket, in bytes.
    static let largestCall = 64 << 20

    /// A part of the path, decoded once.
    func parameter(_ name: String) throws -> String {
        guard let text = context.parameters.get(name)?.removingPercentEncoding else {
            throw AgentError("badRequest", "the path is not valid", .usage)
        }
        return text
    }

    func query(_ name: String) -> String? { request.uri.queryParameters[Substring(name)].map { String($0) } }

    func body(fields: Set<String> = []) async throws -> APIBody { try APIBody(try await bytes(), fields: fields) }

    func bytes(upTo limit: Int = largestBody) async throws -> [UInt8] {
        let type = request.headers[.contentType]?.split(separator: ";").first.map { $0.trimmingCharacters(in: .whitespaces).lowercased() }
        guard type == "application/json" else {
            throw APIRefusal(415, AgentError("contentType", "send Content-Type: application/json", .usage))
        }
        do {
            return Array(buffer: try await request.body.collect(upTo: limit))
        } catch is NIOTooManyBytesError {
            throw APIRefusal(413, AgentError("bodyTooLarge", "the body has more than \(limit) bytes", .usage))
        }
    }

    /// Whether the request announces a body for which few have room at a time. Only the socket takes it.
    var hasLargeCall: Bool {
        guard case .socket = door, let length = request.headers[.contentLength].flatMap({ Int($0) }) else { return false }
        return length > Self.largestBody
    }

    /// The key of a request, with the digest of what it asks for. A token's request always has one, so that it is known whose the command is.
    func submissionKey(_ body: [UInt8]) throws -> SubmissionKey? {
        guard let key = request.header("Idempotency-Key") else {
            guard case .token = principal else { return nil }
            return SubmissionKey("none-\(UInt64.random(in: .min ... .max))", of: principal.id, request: body)
        }
        guard (1...255).contains(key.utf8.count) else {
            throw AgentError("usage", "an Idempotency-Key has 1 to 255 characters", .usage)
        }
        return SubmissionKey(key, of: principal.id, request: Array("\(request.uri.path)\n".utf8) + body)
    }

    /// What the client prefers (RFC 7240): `wait=30` waits for the outcome, `wait=30; until=accepted` for the relay alone.
    func preference() throws -> (wait: Duration, ending: Launch.Ending) {
        for preference in (request.header("Prefer") ?? "").split(separator: ",") {
            let parts = preference.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            guard let first = parts.first, first.hasPrefix("wait=") else { continue }
            guard let seconds = Int(first.dropFirst(5)), (0...Self.longestWait).contains(seconds) else {
                throw AgentError("usage", "Prefer: wait takes 0 to \(Self.longestWait) seconds", .usage)
            }
            return (.seconds(seconds), parts.dropFirst().contains("until=accepted") ? .accepted : .outcome)
        }
        return (.zero, .stored)
    }

    private static let longestWait = 60

    // MARK: Answers

    func json(_ result: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) throws -> Response {
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
