// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Approves a new device, here and for the account's other devices.
package struct Approve: DeviceCommand {
    var target: String
    var question: Question?

    /// - Parameter question: Asks a person, who may name the device; `nil` accepts only an id.
    package init(target: String, asking question: Question? = nil) {
        self.target = target
        self.question = question
    }

    package struct Result: AgentResult {
        /// The endpoints that were approved now.
        package var approved: [EndpointResult]

        package func lines(_ style: Style) -> [String] { approved.map { "approved \($0.description)" } }
        package var notes: [String] { approved.isEmpty ? ["it is already known"] : [] }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        let all = local.platform.endpoints(for: local.account).filter { !$0.isLocal }
        let meant = try EndpointResolver.endpoints(target, in: all, isShown: question != nil)
        // Includes known endpoints that were never compared.
        let open = meant.filter { !$0.isVerified }
        if let question, !open.isEmpty {
            let lines = ["Not approved by a person yet:"] + open.flatMap { EndpointResult($0).facts }
            guard try await question(lines, "Compare the words with those that `relay whoami` prints on that device. Approve it?") else {
                throw AgentError("cancelled", "nothing was approved", .failed)
            }
        }
        for endpoint in open {
            guard await local.platform.confirm(endpoint.id, on: endpoint.systemID, for: local.account) else {
                throw AgentError("notFound", "endpoint \(endpoint.id) is no longer in the account, or was revoked", .notFound)
            }
        }
        return Result(approved: open.map(EndpointResult.init))
    }
}
