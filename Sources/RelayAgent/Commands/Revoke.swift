// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Shuts an endpoint out of the account for ever.
package struct Revoke: Sendable {
    var target: String

    package init(target: String) { self.target = target }

    package struct Result: AgentResult {
        package var revoked: EndpointResult

        package func lines(_ style: Style) -> [String] { ["revoked \(revoked.description)"] }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { session in
            try await session.waitForDirectory()
            let endpoint = try EndpointSearch.endpoint(target, in: session.platform.endpoints(for: session.account))
            guard !endpoint.isLocal else {
                throw AgentError("isLocal", "that is this device itself; run `relay leave`", .usage)
            }
            try await session.platform.revoke(endpoint.id, for: session.account)
            return Result(revoked: EndpointResult(endpoint))
        }
    }
}
