// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Prints the identity of this device without contacting the relay.
package struct WhoAmI: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var profile: String
        /// The account's name at the relay, if the relay has stated one.
        package var accountName: String?
        package var name: String
        package var kind: String
        package var device: String
        package var endpoint: String
        /// The fingerprint words.
        package var words: String
        /// `nil` for a device without an account.
        package var relay: String?
        package var relayID: String?
        package var home: String

        package func lines(_ style: Style) -> [String] {
            [
                "name      \(style.show(name, .strong))", "kind      \(kind)", "device    \(device)", "endpoint  \(endpoint)",
                "words     \(words)",
                "relay     \(relay ?? "-")", "relay id  \(relayID ?? "-")", "account   \(accountName ?? "-")", "profile   \(profile)",
                "home      \(home)",
            ]
        }
    }

    package func run(_ context: AgentContext) throws -> Result {
        let membership = try context.home.membership()
        let endpoint = try context.storedEndpoint()
        return Result(
            profile: context.account,
            accountName: endpoint.accountName,
            name: membership.name,
            kind: membership.kind.rawValue,
            device: "\(endpoint.systemID)",
            endpoint: "\(endpoint.id)",
            words: "\(endpoint.fingerprint)",
            relay: membership.hasRelay ? membership.relay : nil,
            relayID: membership.hasRelay ? "\(membership.relayID)" : nil,
            home: context.home.path
        )
    }
}
