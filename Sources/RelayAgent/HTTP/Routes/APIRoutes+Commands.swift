// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import RelayProtocol

/// Launches, calls, and the commands that are stored.
extension APIRoutes {
    var commandRoutes: [APIRoute] {
        [
            APIRoute(.post, "/v1/launches", .scope(.launch), launch),
            APIRoute(.post, "/v1/calls", .scope(.call), call),
            APIRoute(.get, "/v1/commands", .own, commands),
            APIRoute(.get, "/v1/commands/{id}", .own, command),
            APIRoute(.delete, "/v1/commands/{id}", .own, cancel),
        ]
    }

    private static let launchFields: Set<String> = ["device", "app", "uri", "fallback", "prefer", "ttl"]

    private func launch(_ exchange: APIExchange) async throws -> Response {
        try exchange.bounds.admit(.launch, exchange.principal)
        let bytes = try await exchange.bytes()
        let body = try APIBody(bytes, fields: Self.launchFields)
        var launch = try Launch(
            target: try body.target(),
            uri: try body.required("uri"),
            fallback: try body.optional("fallback"),
            preferred: try body.optional("prefer") ?? [],
            wait: nil,
            life: try body.seconds("ttl", in: 1...Double(28 * 86_400))
        )
        launch.key = try exchange.submissionKey(bytes)
        (launch.wait, launch.ending) = try exchange.preference()
        let schemes = Set([launch.uri.scheme, launch.fallback?.scheme].compactMap { $0?.lowercased() })
        launch.permit = { system in try exchange.principal.require(.launch, .init(device: "\(system.id)", schemes: schemes)) }
        return try await audited(exchange, "launch", subject: launch.uri.scheme) {
            let result = try await perform(launch)
            guard result.status != "succeeded" else { return (try exchange.json(result), result.device, result.status) }
            let headers: HTTPFields = [.location: "/v1/commands/\(result.command)"]
            return (try exchange.json(result, status: .accepted, headers: headers), result.device, result.status)
        }
    }

    private func call(_ exchange: APIExchange) async throws -> Response {
        guard exchange.request.header("Idempotency-Key") == nil else {
            throw AgentError(
                "usage",
                "a call may run twice if it is repeated, so it takes no Idempotency-Key; send a message instead",
                .usage
            )
        }
        try exchange.bounds.admit(.call, exchange.principal)
        guard exchange.hasLargeCall else { return try await call(exchange, try await exchange.bytes()) }
        let slot = try exchange.bounds.largeCall()
        defer { withExtendedLifetime(slot) {} }
        return try await call(exchange, try await exchange.bytes(upTo: APIExchange.largestCall))
    }

    private func call(_ exchange: APIExchange, _ bytes: [UInt8]) async throws -> Response {
        let body = try APIBody(bytes, fields: ["device", "app", "service", "message", "timeout"])
        let timeout = try body.seconds("timeout", in: 0.1...600) ?? LocalDevice.patience
        var call = Call(target: try body.target(), service: try body.required("service"), timeout: timeout)
        let message = try Call.message(try body.source(of: "message"), "the message")
        let service = call.service
        call.permit = { device in try exchange.principal.require(.call, .init(device: device, service: service)) }
        return try await audited(exchange, "call", subject: service) { [call] in
            let result = try await perform(SingleCall(call: call, message: message))
            return (try exchange.json(result), result.device, "answered")
        }
    }

    /// The commands of a list that the sender of a request may read: a token its own ones, and with the scope those of its devices.
    private func readable(_ entries: [CommandList.Entry], by principal: Principal) async throws -> [CommandList.Entry] {
        guard case .token(let token) = principal else { return entries }
        let own = try await local.submitted(by: principal.id)
        let isForAll = token.scopes.contains(.commands)
        return entries.filter { own.contains($0.id) || isForAll && principal.sees(local.device(ofEndpoint: $0.endpoint)) }
    }

    private func commands(_ exchange: APIExchange) async throws -> Response {
        var list = try await perform(CommandList())
        list.commands = try await readable(list.commands, by: exchange.principal)
        // A token learns no links of others.
        if case .token = exchange.principal { list.commands = list.commands.map { $0.with(nil) } }
        if let after = exchange.query("after") {
            guard let place = list.commands.firstIndex(where: { $0.id == after }) else {
                throw AgentError("notFound", "there is no command '\(DisplayText.sanitized(after))' to go on after", .notFound)
            }
            list.commands.removeFirst(place + 1)
        }
        list.commands = Array(list.commands.prefix(Self.pageSize))
        return try exchange.json(list)
    }

    private func entry(_ exchange: APIExchange) async throws -> CommandList.Entry {
        // What is stored needs no relay.
        guard let id = CommandID(try exchange.parameter("id")), let entry = try await CommandList.entry(id, on: local),
            try await !readable([entry], by: exchange.principal).isEmpty
        else { throw AgentError("notFound", "there is no such command here: see `relay commands`", .notFound) }
        return entry
    }

    private func command(_ exchange: APIExchange) async throws -> Response {
        let entry = try await entry(exchange)
        if case .token = exchange.principal { return try exchange.json(entry) }
        let command = if let id = CommandID(entry.id) { try await local.command(id) } else { nil as RemoteCommand? }
        return try exchange.json(entry.with(await command?.content()))
    }

    private func cancel(_ exchange: APIExchange) async throws -> Response {
        // A malformed id says so.
        let cancel = try Cancel(id: try exchange.parameter("id"))
        let entry = try await entry(exchange)
        return try await audited(exchange, "cancel") {
            (try exchange.json(try await perform(cancel)), entry.endpoint, "cancelled")
        }
    }
}
