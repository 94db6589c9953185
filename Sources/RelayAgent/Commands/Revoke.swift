// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Revokes a device, or one of its endpoints, permanently.
package struct Revoke: Sendable {
    var target: String

    package init(target: String) { self.target = target }

    package struct Result: AgentResult {
        package var revoked: [EndpointResult]

        package func lines(_ style: Style) -> [String] { revoked.map { "revoked \($0.description)" } }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { local in
            try await local.waitForDirectory()
            let console = context.console
            let all = local.platform.endpoints(for: local.account)
            let endpoints = try EndpointResolver.endpoints(target, in: all, isShown: console.canAsk)
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
            // This device refuses each endpoint from now on, even if the relay rejects the revocation of an earlier one.
            for endpoint in endpoints {
                do {
                    try await local.platform.revoke(endpoint.id, for: local.account)
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
