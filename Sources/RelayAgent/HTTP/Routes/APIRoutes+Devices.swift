// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Hummingbird
import RelayProtocol

/// The devices of the account.
extension APIRoutes {
    var deviceRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/devices", .scope(.devices), devices),
            APIRoute(.get, "/v1/devices/{device}", .scope(.devices), device),
            APIRoute(.post, "/v1/endpoints/{endpoint}/approval", .person, approve),
            APIRoute(.post, "/v1/endpoints/{endpoint}/revocation", .person, revoke),
            APIRoute(.get, "/v1/doctor", .scope(.call), doctor),
            APIRoute(.post, "/v1/invitations", .person, invite),
        ]
    }

    private func devices(_ exchange: APIExchange) async throws -> Response {
        var result = try await perform(Devices(showsAll: exchange.query("all") == "true"))
        result.devices.removeAll { !exchange.principal.sees($0.id) }
        result.endpoints?.removeAll { !exchange.principal.sees($0.device) }
        return try exchange.json(result)
    }

    private struct OneDevice: Encodable {
        var device: DeviceResult
        var endpoints: [EndpointResult]
        var current: Bool
    }

    private func device(_ exchange: APIExchange) async throws -> Response {
        let result = try await perform(Devices(showsAll: true))
        let system = try await local.target(try exchange.parameter("device")).0
        try exchange.principal.require(.devices, .init(device: "\(system.id)"))
        guard let device = result.devices.first(where: { $0.id == "\(system.id)" }) else {
            throw AgentError("notFound", "the device publishes no app now: see `relay devices --all`", .notFound)
        }
        let endpoints = (result.endpoints ?? []).filter { $0.device == device.id }
        return try exchange.json(OneDevice(device: device, endpoints: endpoints, current: result.current))
    }

    /// The whole id of an endpoint. A name can be ambiguous, and the API cannot ask which device is meant.
    private func endpoint(_ exchange: APIExchange) throws -> String {
        let id = try exchange.parameter("endpoint")
        guard EndpointID(id) != nil else { throw AgentError("idInvalid", "give the whole id of an endpoint", .usage) }
        return id
    }

    private func approve(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let id = try endpoint(exchange)
        return try await audited(exchange, "approve", device: id) {
            (try exchange.json(try await perform(Approve(target: id))), nil, "approved")
        }
    }

    private func revoke(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let id = try endpoint(exchange)
        return try await audited(exchange, "revoke", device: id) {
            (try exchange.json(try await perform(Revoke(target: id))), nil, "revoked")
        }
    }

    private func doctor(_ exchange: APIExchange) async throws -> Response {
        let target = exchange.query("device")
        if case .token(let token) = exchange.principal, let devices = token.devices {
            // The checks of the relay show nothing of other devices, but name the account.
            guard let target, devices.contains("\(try await local.target(target).0.id)") else {
                let message = "the token '\(token.name)' is for some devices only: name one"
                throw APIRefusal(403, AgentError("insufficientScope", message, .declined))
            }
        }
        return try exchange.json(await Doctor(target: target).run(on: local))
    }

    private func invite(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        return try await audited(exchange, "invite") {
            (try exchange.json(try await perform(Invite()), status: .created), nil, "invited")
        }
    }
}
