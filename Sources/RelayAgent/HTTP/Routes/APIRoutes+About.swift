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
        /// The id of this device's endpoint.
        var endpoint: String?
        /// Its fingerprint words.
        var words: String?
    }

    private func about() -> About {
        let accounts = local.platform.accounts
        return About(
            version: version,
            schema: JSONText.schema,
            instance: instance,
            endpoint: accounts.endpoint(of: local.account).map { "\($0)" },
            words: (try? accounts.fingerprint(of: local.account)).map { "\($0)" }
        )
    }
}
