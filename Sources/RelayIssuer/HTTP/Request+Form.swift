// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import NIOCore
import RelayProtocol

extension Request {
    func values(of name: String) -> [String] { headers.filter { $0.name.canonicalName == name }.map(\.value) }

    /// The program that sent the request, as account events show it.
    var agent: String { BrowserName.of(values(of: "user-agent").first ?? "") }

    func form() async throws(OAuthError) -> Form { try Form(parsing: try await body(type: "application/x-www-form-urlencoded")) }

    /// Returns the form of a client. A public client may name itself by HTTP Basic with an empty password (RFC 6749 §2.3.1).
    func clientForm() async throws(OAuthError) -> Form {
        var form = try await form()
        if let client = BasicCredentials(authorization: values(of: "authorization")) {
            guard client.secret.exposed.isEmpty else {
                throw OAuthError(.invalidClient, "clients of this issuer are public and have no secret", status: 401)
            }
            try form.setClient(client.name)
        }
        return form
    }

    func body(type expected: String) async throws(OAuthError) -> [UInt8] {
        let type = headers[.contentType]?.prefix { $0 != ";" && $0 != " " }.lowercased()
        guard type == expected else { throw OAuthError(.invalidRequest, "the request must be \(expected)") }
        let body: ByteBuffer
        do {
            body = try await self.body.collect(upTo: Form.maximumBytes)
        } catch is NIOTooManyBytesError {
            throw OAuthError(.invalidRequest, "the request has more than \(Form.maximumBytes) bytes", status: 413)
        } catch {
            throw OAuthError(.invalidRequest, "the request broke off")
        }
        return Array(body.readableBytesView)
    }
}

extension IssuerContext {
    /// Returns the issuer's URL for the address that the client used. The client's `Host` only selects one of the configured origins.
    func url(for request: Request) -> String {
        let authority = Array((request.head.authority ?? "").lowercased().utf8)
        let origin = origins.first { $0.lowercased().utf8.split(separator: UInt8(ascii: "/")).last?.elementsEqual(authority) ?? false }
        return (origin ?? origins.first ?? "") + Issuer.path
    }
}

extension Response {
    /// Converts an error into a response.
    static func answering(_ body: () async throws(OAuthError) -> Response) async -> Response {
        do throws(OAuthError) {
            return try await body()
        } catch {
            var response = json(ErrorBody(error), status: .init(code: error.status))
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

    static func json(_ body: some Encodable, status: HTTPResponse.Status = .ok, cacheControl: String = "no-store") -> Response {
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
