// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Hummingbird
import RelayProtocol

/// Who may do what, and who did what.
extension APIRoutes {
    var accessRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/audit", .scope(.audit), audit),
            APIRoute(.get, "/v1/tokens", .person, tokens),
            APIRoute(.post, "/v1/tokens", .owner, addToken),
            APIRoute(.delete, "/v1/tokens/{id}", .person, removeToken),
        ]
    }

    private struct AuditPage: Encodable {
        var entries: [AgentStore.AuditEntry]
    }

    private func audit(_ exchange: APIExchange) async throws -> Response {
        let before = exchange.query("after").map { Int64($0) }
        if case .some(.none) = before { throw AgentError("usage", "after is the sequence of an entry", .usage) }
        let entries = try await store.audit(before: before ?? nil, of: exchange.principal, limit: Self.pageSize)
        return try exchange.json(AuditPage(entries: entries))
    }

    private func tokens(_ exchange: APIExchange) async throws -> Response {
        try exchange.json(TokenList.Result(tokens: try await store.tokens().map(TokenResult.init)))
    }

    private func addToken(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["name", "scopes", "devices", "schemes", "services", "expires"])
        let token = try APIToken(
            name: try body.required("name"),
            scopes: try body.required("scopes"),
            devices: try body.optional("devices"),
            schemes: try body.optional("schemes"),
            services: try body.optional("services"),
            life: try body.seconds("expires", in: 60...(APIToken.longestLife / .seconds(1)))
        )
        return try await audited(exchange, "token add") {
            let (text, digest) = APIToken.secret()
            try await store.add(token, digest: digest)
            var result = TokenResult(token)
            result.token = text
            return (try exchange.json(TokenAdd.Result(result), status: .created), nil, "added")
        }
    }

    private func removeToken(_ exchange: APIExchange) async throws -> Response {
        let id = try exchange.parameter("id")
        return try await audited(exchange, "token remove") {
            guard try await store.removeToken(id) else {
                throw AgentError("notFound", "there is no such token: relay token list", .notFound)
            }
            events.accessChanged()
            webhooks.changed()
            transfers.cancel(exceptOf: try await store.tokens())
            return (try exchange.json(TokenRemove.Result(removed: id)), nil, "removed")
        }
    }
}
