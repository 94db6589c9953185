// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Revokes a device, or one endpoint of it, for ever.
package struct Revoke: Sendable {
    var target: String

    package init(target: String) { self.target = target }

    package struct Result: AgentResult {
        package var revoked: [EndpointResult]

        package func lines(_ style: Style) -> [String] { revoked.map { "revoked \($0.description)" } }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { session in
            try await session.waitForDirectory()
            let console = context.console
            let all = session.platform.endpoints(for: session.account)
            let endpoints = try EndpointSearch.endpoints(target, in: all, isShown: console.canAsk)
            guard !endpoints.contains(where: \.isLocal) else {
                throw AgentError("isLocal", "this is the local device; run `relay leave`", .usage)
            }
            if console.canAsk {
                let lines = ["To be revoked, for ever:"] + endpoints.flatMap { EndpointResult($0).facts }
                guard try await console.isConfirmed(lines, "Revoke it?") else {
                    throw AgentError("cancelled", "nothing was revoked", .failed)
                }
            }
            var revoked: [EndpointResult] = []
            var failure: (any Error)?
            // Each is refused here from now on, also those after one that the relay does not take.
            for endpoint in endpoints {
                do {
                    try await session.platform.revoke(endpoint.id, for: session.account)
                    revoked.append(EndpointResult(endpoint))
                } catch {
                    failure = failure ?? error
                }
            }
            if let failure { throw failure }
            return Result(revoked: revoked)
        }
    }
}
