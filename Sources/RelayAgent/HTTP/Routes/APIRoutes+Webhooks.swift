// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import RelayProtocol

/// Addresses that get what happens. A token sees and changes its own ones, the owner all.
extension APIRoutes {
    var webhookRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/webhooks", .scope(.webhooks), listWebhooks),
            APIRoute(.post, "/v1/webhooks", .scope(.webhooks), addWebhook),
            APIRoute(.delete, "/v1/webhooks/{id}", .scope(.webhooks), removeWebhook),
            APIRoute(.get, "/v1/webhooks/{id}/deliveries", .scope(.webhooks), deliveries),
            APIRoute(.post, "/v1/webhooks/{id}/secret", .scope(.webhooks), rotateSecret),
        ]
    }

    private struct WebhookList: Encodable {
        var webhooks: [WebhookResult]
    }

    private struct OneWebhook: Encodable {
        var webhook: WebhookResult
    }

    private struct Deliveries: Encodable {
        var deliveries: [WebhookDeliveryResult]
    }

    private struct Removed: Encodable {
        var removed: String
    }

    private func visible(_ exchange: APIExchange) async throws -> [Webhook] {
        try await store.webhooks().filter { webhook in
            guard case .token(let token) = exchange.principal else { return true }
            return webhook.token?.id == token.id
        }
    }

    private func webhook(_ exchange: APIExchange) async throws -> Webhook {
        let id = try exchange.parameter("id")
        guard let webhook = try await visible(exchange).first(where: { $0.id == id }) else {
            throw AgentError("notFound", "there is no such webhook: see GET /v1/webhooks", .notFound)
        }
        return webhook
    }

    private func listWebhooks(_ exchange: APIExchange) async throws -> Response {
        try exchange.json(WebhookList(webhooks: try await visible(exchange).map(WebhookResult.init)))
    }

    private func addWebhook(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["url", "types", "includeURI"])
        let webhook = try Webhook(
            url: try body.required("url"),
            types: try body.required("types"),
            includesURI: try body.optional("includeURI") ?? false,
            of: exchange.principal
        )
        return try await audited(exchange, "webhook add") {
            // The name may lead elsewhere later, so each attempt checks it again.
            _ = try await WebhookAddress(webhook.url, for: exchange.principal).addresses()
            let secret = WebhookSecret.new()
            try await webhooks.add(webhook, secret)
            var result = WebhookResult(webhook)
            result.secret = secret.text
            return (try exchange.json(OneWebhook(webhook: result), status: .created), nil, "added")
        }
    }

    private func removeWebhook(_ exchange: APIExchange) async throws -> Response {
        let webhook = try await webhook(exchange)
        return try await audited(exchange, "webhook remove") {
            try await store.removeWebhook(webhook.id)
            webhooks.changed()
            return (try exchange.json(Removed(removed: webhook.id)), nil, "removed")
        }
    }

    private func deliveries(_ exchange: APIExchange) async throws -> Response {
        let webhook = try await webhook(exchange)
        return try exchange.json(Deliveries(deliveries: try await store.deliveries(of: webhook.id, limit: Self.pageSize)))
    }

    private func rotateSecret(_ exchange: APIExchange) async throws -> Response {
        _ = try await exchange.body()
        let webhook = try await webhook(exchange)
        return try await audited(exchange, "webhook secret") {
            let secret = try await store.rotateSecret(of: webhook.id, at: .now)
            var result = WebhookResult(webhook)
            result.secret = secret.text
            return (try exchange.json(OneWebhook(webhook: result)), nil, "rotated")
        }
    }
}
