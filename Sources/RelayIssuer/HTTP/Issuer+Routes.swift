// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import Hummingbird
import NIOCore
import RelayProtocol
import Synchronization

extension Issuer {
    /// Adds the issuer's routes, below `Issuer.path` and at the metadata address of RFC 8414 §3.1.
    /// - Parameter networks: The networks under which a client's failures are counted.
    package func addRoutes<Context: RequestContext>(
        to router: some RouterMethods<Context>,
        networks: @escaping @Sendable (Request, Context) -> ClientNetworks
    ) {
        let path = Issuer.path
        addPages(to: router, networks: networks)
        addTerminalRoutes(to: router, networks: networks)
        for address in [
            "\(path)/.well-known/openid-configuration",
            "\(path)/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server\(path)",
        ] {
            router.get(RouterPath(address)) { [self] request, _ in
                Issuer.response(Metadata(issuer: url(for: request)), cacheControl: "public, max-age=300")
            }
        }
        router.get(RouterPath("\(path)/jwks")) { [self] _, _ in
            await Issuer.answer { () async throws(OAuthError) -> Response in
                let keys = try await answering { () async throws(IssuerError) -> JSONWebKeySet in try await publishedKeys() }
                return Issuer.response(keys, cacheControl: "public, max-age=3600")
            }
        }
        router.post(RouterPath("\(path)/token")) { [self] request, context in
            let client = networks(request, context)
            return await answer(client) { () async throws(OAuthError) -> Response in
                let form = try await Issuer.clientForm(of: request)
                let proofs = Issuer.values(of: "dpop", in: request)
                return Issuer.response(try await answerTokenRequest(form, proofs: proofs, from: client, at: url(for: request)))
            }
        }
        router.post(RouterPath("\(path)/revoke")) { [self] request, context in
            await answer(networks(request, context)) { () async throws(OAuthError) -> Response in
                let form = try await Issuer.clientForm(of: request)
                try await revoke(form.required("token"), client: TokenRequest.client(form))
                return Response(status: .ok, headers: [.cacheControl: "no-store"])
            }
        }
        router.post(RouterPath("\(path)/introspect")) { [self] request, context in
            await answer(networks(request, context)) { () async throws(OAuthError) -> Response in
                let form = try await Issuer.form(of: request)
                return Issuer.response(try await introspect(form, authorization: Issuer.values(of: "authorization", in: request)))
            }
        }
        router.post(RouterPath("\(path)/device_authorization")) { [self] request, context in
            let client = networks(request, context)
            return await answer(client) { () async throws(OAuthError) -> Response in
                let form = try await Issuer.clientForm(of: request)
                return Issuer.response(try await authorizeDevice(form, from: client, at: url(for: request)))
            }
        }
        router.post(RouterPath("\(path)/register")) { [self] request, context in
            let client = networks(request, context)
            return await answer(client) { () async throws(OAuthError) -> Response in
                let body = try await Issuer.body(of: request, type: "application/json")
                return Issuer.response(try register(body), status: .created)
            }
        }
        router.post(RouterPath("\(path)/invitations")) { [self] request, context in
            await answer(networks(request, context)) { () async throws(OAuthError) -> Response in
                let presented = try InviteCredentials(
                    authorization: Issuer.values(of: "authorization", in: request),
                    proofs: Issuer.values(of: "dpop", in: request)
                )
                return Issuer.response(try await invite(presented))
            }
        }
    }

    private func answerTokenRequest(
        _ form: Form,
        proofs: [String],
        from client: ClientNetworks,
        at issuer: String
    ) async throws(OAuthError) -> TokenResponse {
        var subject = ""
        let exchange = { () async throws(OAuthError) -> TokenResponse in
            guard proofs.count <= 1 else { throw OAuthError(.invalidDPoPProof, "there is more than one DPoP header") }
            return try await self.exchange(TokenRequest(form), proof: proofs.first, at: issuer) { subject = $0 }
        }
        guard let method = TokenRequest.method(ofGrant: form["grant_type"]) else { return try await exchange() }
        let app = RegisteredClient.shown(form["client_id"] ?? "")
        let response = try await signingIn(by: method, from: client, app: app, name: { _ in await account(of: subject) }, exchange)
        guard let response else { throw TokenRequest.unknownCode }
        return response
    }

    static func values(of name: String, in request: Request) -> [String] {
        request.headers.filter { $0.name.canonicalName == name }.map(\.value)
    }

    /// Returns the issuer's URL for the address that the client used. The client's `Host` only selects one of the configured origins.
    func url(for request: Request) -> String {
        let authority = request.head.authority?.lowercased()
        let origin = settings.origins.first { $0.lowercased().split(separator: "/").last.map(String.init) == authority }  // ASCII only
        return (origin ?? settings.origins.first ?? "") + Issuer.path
    }

    static func form(of request: Request) async throws(OAuthError) -> Form {
        try Form(parsing: try await body(of: request, type: "application/x-www-form-urlencoded"))
    }

    /// Returns the form of a client. A public client may name itself by HTTP Basic with an empty password (RFC 6749 §2.3.1).
    private static func clientForm(of request: Request) async throws(OAuthError) -> Form {
        var form = try await form(of: request)
        if let client = BasicCredentials(authorization: values(of: "authorization", in: request)) {
            guard client.secret.exposed.isEmpty else {
                throw OAuthError(.invalidClient, "clients of this issuer are public and have no secret", status: 401)
            }
            try form.setClient(client.name)
        }
        return form
    }

    private static func body(of request: Request, type expected: String) async throws(OAuthError) -> [UInt8] {
        let type = request.headers[.contentType]?.prefix { $0 != ";" && $0 != " " }.lowercased()
        guard type == expected else { throw OAuthError(.invalidRequest, "the request must be \(expected)") }
        let body: ByteBuffer
        do {
            body = try await request.body.collect(upTo: Form.maximumBytes)
        } catch is NIOTooManyBytesError {
            throw OAuthError(.invalidRequest, "the request has more than \(Form.maximumBytes) bytes", status: 413)
        } catch {
            throw OAuthError(.invalidRequest, "the request broke off")
        }
        return Array(body.readableBytesView)
    }

    func answer(_ client: ClientNetworks, _ body: () async throws(OAuthError) -> Response) async -> Response {
        await Issuer.answer { () async throws(OAuthError) -> Response in try await serve(client, body) }
    }

    private static func answer(_ body: () async throws(OAuthError) -> Response) async -> Response {
        do throws(OAuthError) {
            return try await body()
        } catch {
            var response = response(ErrorBody(error), status: .init(code: error.status))
            if let wait = error.retryAfter { response.headers[.retryAfter] = wait.retryAfterSeconds }
            // RFC 6750 §3 and RFC 9449 §7.1.
            if error.code == .invalidClient, error.status == 401 {
                response.headers[.wwwAuthenticate] = "Basic realm=\"issuer\", charset=\"UTF-8\""
            } else if error.status == 401 || error.status == 403 {
                response.headers[.wwwAuthenticate] = "DPoP error=\"\(error.code.rawValue)\""
            }
            return response
        }
    }

    private struct ErrorBody: Encodable {
        var error: String
        var description: String
        var reason: String?

        init(_ error: OAuthError) {
            self.error = error.code.rawValue
            self.description = error.description
            self.reason = error.reason?.rawValue
        }

        private enum CodingKeys: String, CodingKey {
            case error, reason
            case description = "error_description"
        }
    }

    static func response(_ body: some Encodable, status: HTTPResponse.Status = .ok, cacheControl: String = "no-store") -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let bytes = try? encoder.encode(body) else { return Response(status: .internalServerError) }
        return Response(
            status: status,
            headers: [.contentType: "application/json", .cacheControl: cacheControl],
            body: .init(byteBuffer: ByteBuffer(bytes: bytes))
        )
    }
}
