// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Shows the code that people compare on this device and on another one, and confirms the other one if the codes are equal.
package struct Verify: DeviceCommand {
    var target: String
    var question: Question?

    /// - Parameter question: Asks a person whether the codes are equal; `nil` confirms nothing.
    package init(target: String, asking question: Question? = nil) {
        self.target = target
        self.question = question
    }

    package struct Result: AgentResult {
        /// The verification code: ten words.
        package var code: String
        package var device: String
        package var name: String
        package var endpoint: String
        /// Whether the endpoint is verified now.
        package var verified: Bool
        var isAsked = false

        enum CodingKeys: CodingKey { case code, device, name, endpoint, verified }

        package func lines(_ style: Style) -> [String] {
            isAsked ? ["verified \(name) (endpoint \(endpoint))"] : Verify.lines(of: code)
        }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        let endpoint = try endpoint(of: local)
        guard let code = local.platform.verificationCode(with: endpoint.id, for: local.account) else {
            throw AgentError("notFound", "the relay does not list this device now; try again", .notFound)
        }
        let facts = EndpointResult(endpoint)
        var result = Result(code: "\(code)", device: facts.device, name: facts.name, endpoint: facts.id, verified: endpoint.isVerified)
        guard let question else { return result }
        let lines =
            ["To be compared:"] + facts.facts + ["The code of this device and that one:"] + Self.lines(of: result.code)
            + ["Run there: \(ShellText.command("relay verify", try local.home.membership().name))"]
        guard try await question(lines, "Does it show the same words?") else {
            let advice = "if the words differ, another device answers in its place. To exclude it, run: relay revoke \(facts.id)"
            throw AgentError("cancelled", "nothing was confirmed; \(advice)", .failed)
        }
        guard await local.platform.confirm(endpoint.id, on: endpoint.systemID, for: local.account) else {
            throw AgentError("notFound", "endpoint \(endpoint.id) is no longer in the account, or was revoked", .notFound)
        }
        result.verified = true
        result.isAsked = true
        return result
    }

    /// The one endpoint that the text names.
    private func endpoint(of local: LocalDevice) throws -> DeviceDirectory.Endpoint {
        let all = local.platform.endpoints(for: local.account).filter { !$0.isLocal }
        // A name is enough: the code proves which keys the device has.
        let ids = try EndpointResolver.endpoints(target, in: all.map(EndpointResult.init), isShown: true).map(\.id)
        let meant = all.filter { ids.contains("\($0.id)") }
        guard meant.count == 1, let endpoint = meant.first else {
            throw AgentError.ambiguous("'\(target)' has several endpoints", meant.map { EndpointResult($0).description })
        }
        return endpoint
    }

    /// The fingerprint words of each endpoint on a line of its own.
    private static func lines(of code: String) -> [String] { code.split(separator: " ").map { "  \($0)" } }
}
