// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Prints the identity of this device without contacting the relay.
package struct WhoAmI: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var name: String
        package var kind: String
        package var device: String
        package var endpoint: String
        package var relay: String
        package var relayID: String
        package var home: String

        package func lines(_ style: Style) -> [String] {
            [
                "name      \(style.show(name, .strong))", "kind      \(kind)", "device    \(device)", "endpoint  \(endpoint)",
                "relay     \(relay)", "relay id  \(relayID)", "home      \(home)",
            ]
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount(connects: false) { session in
            let accounts = session.platform.accounts
            return Result(
                name: session.membership.name,
                kind: session.membership.kind.rawValue,
                device: "\(try accounts.systemID)",
                endpoint: accounts.endpoint(of: session.account)?.description ?? "",
                relay: session.membership.relay,
                relayID: "\(session.membership.relayID)",
                home: context.home.path
            )
        }
    }
}
