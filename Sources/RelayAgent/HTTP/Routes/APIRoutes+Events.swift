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
        // The console shows everything. A program that names no types gets those that need no answer.
        var kinds: Set<EventLog.Event.Kind> = [.command, .device, .transfer]
        if case .console = exchange.principal { kinds.insert(.ask) }
        if let names = exchange.query("types") {
            kinds = Set(
                try names.split(separator: ",").map { name in
                    guard let kind = EventLog.Event.Kind(rawValue: String(name)) else {
                        throw AgentError("usage", "the types of events are command, device, transfer and ask", .usage)
                    }
                    return kind
                }
            )
        }
        let stream = EventStream(
            log: events,
            instance: instance,
            principal: exchange.principal,
            store: store,
            local: local,
            board: board,
            console: console,
            kinds: kinds
        )
        return try stream.response(to: exchange.request, exchange.bounds)
    }
}
