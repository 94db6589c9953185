// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// A command about the agent itself. Without a running agent it fails.
package protocol AgentOnlyCommand: RoutedCommand {}

extension AgentOnlyCommand {
    package func run(on local: LocalDevice) async throws -> Result { throw AgentError.noAgent }

    package func runHere(_ context: AgentContext) async throws -> Result {
        // A device that is not signed in has something else to do first.
        _ = try context.home.membership()
        throw AgentError.noAgent
    }
}

extension AgentError {
    static let noAgent = AgentError(
        "agentMissing",
        "this needs the agent of this device in this version; start it: relay agent (or for good: relay agent install)",
        .unreachable
    )
}
