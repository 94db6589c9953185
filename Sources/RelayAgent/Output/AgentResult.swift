// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The result of a command: printed as lines for people, or as JSON for programs.
package protocol AgentResult: Encodable, Sendable {
    func lines(_ style: Style) -> [String]
    /// What people are told besides, on standard error.
    var notes: [String] { get }
    /// One JSON object on one line.
    func json() throws -> String
}

extension AgentResult {
    package var notes: [String] { [] }
    package func json() throws -> String { try JSONText.line(self) }
}

struct FailureResult: AgentResult {
    struct Failure: Encodable {
        var code: String
        var message: String
        var exit: Int32
        var command: String?
        var attested: Attestation?
    }

    var error: Failure

    init(_ error: AgentError) {
        self.error = Failure(
            code: error.code,
            message: error.message,
            exit: error.status.rawValue,
            command: error.command?.description,
            attested: error.attested
        )
    }

    func lines(_ style: Style) -> [String] { [error.message] }
}
