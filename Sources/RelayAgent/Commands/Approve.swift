// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Approves a new device, here and for the account's other devices.
package struct Approve: RoutedCommand {
    var target: String
    var question: Question?

    /// - Parameter question: Asks a person, who may name the device; `nil` accepts only an id.
    package init(target: String, asking question: Question? = nil) {
        self.target = target
        self.question = question
    }

    package struct Result: AgentResult, Codable {
        /// The endpoints that were approved now.
        package var approved: [EndpointResult]

        package func lines(_ style: Style) -> [String] { approved.map { "approved \($0.description)" } }
        package var notes: [String] { approved.isEmpty ? ["it is already known"] : [] }
    }

    /// The route takes the whole id of one endpoint.
    package func request() throws -> APIRequest {
        try APIRequest(.post, "endpoints", target, "approval").with(body: [String: String]())
    }

    /// The agent cannot ask: the question is here, and the agent gets ids.
    package func run(_ context: AgentContext) async throws -> Result {
        guard let agent = await AgentClient.find(context), let all = try await agent.endpoints() else { return try await runHere(context) }
        var result = Result(approved: [])
        for endpoint in try await chosen(of: all) {
            result.approved += try await agent.run(Approve(target: endpoint.id), waitingLine: nil).approved
        }
        return result
    }

    /// The endpoints that are meant and not approved yet, after a question.
    private func chosen(of all: [EndpointResult]) async throws -> [EndpointResult] {
        let meant = try EndpointResolver.endpoints(target, in: all.filter { !$0.local }, isShown: question != nil)
        // Includes known endpoints that were never compared.
        let open = meant.filter { $0.new || $0.unverified }
        guard let question, !open.isEmpty else { return open }
        let lines = ["Not approved by a person yet:"] + open.flatMap(\.facts)
        guard try await question(lines, "Compare the words with those that `relay whoami` prints on that device. Approve it?") else {
            throw AgentError("cancelled", "nothing was approved", .failed)
        }
        return open
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        let all = local.platform.endpoints(for: local.account)
        let ids = Set(try await chosen(of: all.map(EndpointResult.init)).map(\.id))
        let open = all.filter { ids.contains("\($0.id)") }
        for endpoint in open {
            guard await local.platform.confirm(endpoint.id, on: endpoint.systemID, for: local.account) else {
                throw AgentError("notFound", "endpoint \(endpoint.id) is no longer in the account, or was revoked", .notFound)
            }
        }
        return Result(approved: open.map(EndpointResult.init))
    }
}
