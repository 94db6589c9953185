// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
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
        title = HTTPResponseStatus(statusCode: status).reasonPhrase
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
}
