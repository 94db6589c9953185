// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import HTTPTypes
import Hummingbird
import RelayProtocol

/// Messages to app services that are stored.
extension APIRoutes {
    var messageRoutes: [APIRoute] { [APIRoute(.post, "/v1/messages", .scope(.call), message)] }

    private func message(_ exchange: APIExchange) async throws -> Response {
        let bytes = try await exchange.bytes()
        let body = try APIBody(bytes, fields: ["device", "app", "service", "message", "ttl"])
        let service: String = try body.required("service")
        let (wait, ending) = try exchange.preference()
        let message = StoredMessage(
            target: try body.target(),
            service: service,
            message: try Call.message(try body.source(of: "message"), "the message"),
            wait: wait,
            ending: ending,
            life: try body.seconds("ttl", in: 1...Double(28 * 86_400)) ?? .seconds(86_400),
            key: try exchange.submissionKey(bytes)
        ) { device in
            try exchange.principal.require(.call, .init(device: device, service: service))
        }
        return try await audited(exchange, "message", subject: service) {
            let result = try await perform(message)
            guard result.status != "succeeded" else { return (try exchange.json(result), result.device, result.status) }
            let headers: HTTPFields = [.location: "/v1/commands/\(result.command)"]
            return (try exchange.json(result, status: .accepted, headers: headers), result.device, result.status)
        }
    }
}
