// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Approves a new device, here and for the account's other devices.
package struct Approve: Sendable {
    var target: String

    package init(target: String) { self.target = target }

    package struct Result: AgentResult {
        /// The endpoints that were approved now.
        package var approved: [EndpointResult]

        package func lines(_ style: Style) -> [String] { approved.map { "approved \($0.description)" } }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { local in
            try await local.waitForDirectory()
            let console = context.console
            let all = local.platform.endpoints(for: local.account).filter { !$0.isLocal }
            let meant = try EndpointResolver.endpoints(target, in: all, isShown: console.canAsk)
            // Includes known endpoints that were never compared.
            let open = meant.filter { !$0.isVerified }
            if console.canAsk, !open.isEmpty {
                let lines = ["Not approved by a person yet:"] + open.flatMap { EndpointResult($0).facts }
                let question = "Compare the words with those that `relay whoami` prints on that device. Approve it?"
                guard try await console.isConfirmed(lines, question) else {
                    throw AgentError("cancelled", "nothing was approved", .failed)
                }
            }
            for endpoint in open {
                guard await local.platform.confirm(endpoint.id, on: endpoint.systemID, for: local.account) else {
                    throw AgentError("notFound", "endpoint \(endpoint.id) is no longer in the account, or was revoked", .notFound)
                }
            }
            if open.isEmpty, !context.console.isJSON { context.console.note("it is already known") }
            return Result(approved: open.map(EndpointResult.init))
        }
    }
}
