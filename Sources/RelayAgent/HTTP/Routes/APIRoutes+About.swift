// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Hummingbird

/// What the agent is.
extension APIRoutes {
    var aboutRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1", .anybody) { try $0.json(about()) },
            APIRoute(.get, "/openapi.yaml", .anybody) { _ in
                APIExchange.response(OpenAPIDocument.text, "application/yaml", .ok)
            },
        ]
    }

    private struct About: Encodable {
        var version: String
        var schema: Int
        var instance: String
        /// The name of this device.
        var name: String?
        /// The account's name at the relay, if the relay has stated one.
        var accountName: String?
        /// The URL of the relay; `nil` for a device without an account.
        var relay: String?
        var relayID: String?
        /// The id of this device's endpoint.
        var endpoint: String?
        /// Its fingerprint words.
        var words: String?
    }

    private func about() -> About {
        let accounts = local.platform.accounts
        let membership = try? local.home.membership()
        return About(
            version: version,
            schema: JSONText.schema,
            instance: instance,
            name: membership?.name,
            accountName: local.accountName,
            relay: membership.flatMap { $0.hasRelay ? $0.relay : nil },
            relayID: membership.flatMap { $0.hasRelay ? "\($0.relayID)" : nil },
            endpoint: accounts.endpoint(of: local.account).map { "\($0)" },
            words: (try? accounts.fingerprint(of: local.account)).map { "\($0)" }
        )
    }
}
