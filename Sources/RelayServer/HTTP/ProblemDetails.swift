// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import HTTPTypes
package import Hummingbird

/// An error response (RFC 9457). Its type is always `about:blank`: status and title state the kind, `detail` gives advice.
package struct ProblemDetails: Error, Hashable, Sendable {
    package var status: HTTPResponse.Status
    /// For people. Contains no text of the request.
    package var detail: String
    package var headers: HTTPFields

    package init(_ status: HTTPResponse.Status, _ detail: String, headers: HTTPFields = [:]) {
        self.status = status
        self.detail = detail
        self.headers = headers
    }

    package static let contentType = "application/problem+json"

    package var json: String {
        let members = Members(type: "about:blank", title: status.reasonPhrase, status: status.code, detail: detail)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let data = (try? encoder.encode(members)) ?? Data("{}".utf8)
        return String(decoding: data, as: UTF8.self)
    }

    private struct Members: Encodable {
        var type: String
        var title: String
        var status: Int
        var detail: String
    }
}

extension ProblemDetails: HTTPResponseError {
    package func response(from request: Request, context: some RequestContext) -> Response {
        var headers = headers
        headers[.contentType] = Self.contentType
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: json)))
    }
}
