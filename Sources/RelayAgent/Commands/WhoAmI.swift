// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Prints the identity of this device without contacting the relay.
package struct WhoAmI: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var account: String
        package var name: String
        package var kind: String
        package var device: String
        package var endpoint: String
        /// The fingerprint words.
        package var words: String
        package var relay: String
        package var relayID: String
        package var home: String

        package func lines(_ style: Style) -> [String] {
            [
                "name      \(style.show(name, .strong))", "kind      \(kind)", "device    \(device)", "endpoint  \(endpoint)",
                "words     \(words)",
                "relay     \(relay)", "relay id  \(relayID)", "account   \(account)", "home      \(home)",
            ]
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount(connects: false) { local in
            let accounts = local.platform.accounts
            return Result(
                account: context.account,
                name: local.membership.name,
                kind: local.membership.kind.rawValue,
                device: "\(try accounts.systemID)",
                endpoint: accounts.endpoint(of: local.account)?.description ?? "",
                words: try accounts.fingerprint(of: local.account)?.description ?? "",
                relay: local.membership.relay,
                relayID: "\(local.membership.relayID)",
                home: context.home.path
            )
        }
    }
}
