// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird

/// What happens.
extension APIRoutes {
    var eventRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/events", .own, stream)
        ]
    }

    private func stream(_ exchange: APIExchange) async throws -> Response {
        try EventStream(log: events, instance: instance, principal: exchange.principal, store: store, local: local).response(
            to: exchange.request
        )
    }
}
