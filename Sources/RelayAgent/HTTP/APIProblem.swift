// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A failure as the API answers it: RFC 9457, with the fields of a failure on the command line.
struct APIProblem: Codable, Sendable {
    static let mediaType = "application/problem+json"

    var type = "about:blank"
    var title: String
    var status: Int
    /// The same as `message`.
    var detail: String
    var code: String
    var message: String
    /// The exit code that `relay` ends with.
    var exit: Int32
    var command: String?
    var attested: Attestation?
    /// Whether the command may have run, although its outcome is not known.
    var mayHaveRun: Bool?
    /// In seconds.
    var retryAfter: Int?

    init(_ failure: AgentError, status: Int? = nil, retryAfter: Int? = nil) {
        let status = status ?? failure.httpStatus
        title = Self.titles[status] ?? "Error"
        self.status = status
        (detail, code, message) = (failure.message, failure.code, failure.message)
        exit = failure.status.rawValue
        command = failure.command?.description
        attested = failure.attested
        if failure.code == "indeterminate" { mayHaveRun = true }
        self.retryAfter = retryAfter
    }

    /// The failure that `relay` prints.
    var failure: AgentError {
        var failure = AgentError(code, message, ExitStatus(rawValue: exit) ?? .failed, command: command.flatMap { CommandID($0) })
        failure.attested = attested
        return failure
    }

    private static let titles = [
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict",
        410: "Gone",
        413: "Content Too Large", 415: "Unsupported Media Type", 421: "Misdirected Request", 422: "Unprocessable Content",
        429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
    ]
}
