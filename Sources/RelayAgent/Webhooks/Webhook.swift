// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// What a webhook tells.
enum WebhookEventType: String, Codable, CaseIterable, Sendable {
    /// A command has come further.
    case progress = "command.progress"
    /// A command has ended.
    case final = "command.final"
    /// A device is to be read again.
    case device = "device.changed"
}

/// An address that gets what happens.
struct Webhook: Sendable, Identifiable {
    var id: String
    /// The token that has made it, and with which it ends; `nil` for the owner's.
    var token: APIToken?
    var url: String
    var types: Set<WebhookEventType>
    /// Whether events of launches have the URI.
    var includesURI: Bool
    var created: Date
    /// When its receiver has ended it, by 410.
    var ended: Date?
    /// How many messages were dropped because too many waited.
    var missed: Int
    /// How many messages wait.
    var waiting: Int

    /// How many there are at most.
    static let maximum = 16
    /// How many messages of each wait at most.
    static let maximumWaiting = 1_000
    /// How many messages of each are kept after their end, for its list.
    static let kept = 100

    /// The principal that has made it.
    var principal: Principal { token.map(Principal.token) ?? .owner }

    /// Whether it may tell of a device.
    func sees(device: String?) -> Bool {
        guard token?.devices != nil else { return true }
        return device.map(principal.sees) ?? false
    }

    /// Whether it tells a URI: if it asked for it, and its token is for such URIs.
    func shows(_ uri: LaunchURI) -> Bool { includesURI && token?.schemes?.contains(uri.scheme) ?? true }
}

extension Webhook {
    /// A new webhook of what a request asks for.
    /// - Throws: `AgentError` that says what is wrong, and `APIRefusal` if a token may not read it.
    init(url: String, types: [String], includesURI: Bool, of principal: Principal) throws {
        let known = try types.map { text in
            guard let type = WebhookEventType(rawValue: text) else {
                throw AgentError(
                    "typeInvalid",
                    "there is no type '\(DisplayText.sanitized(String(text.prefix(40))))'; \(Self.names)",
                    .usage
                )
            }
            return type
        }
        guard !known.isEmpty else { throw AgentError("typeInvalid", "name at least one type; \(Self.names)", .usage) }
        if known.contains(.device) { try principal.require(.devices) }
        var token: APIToken?
        if case .token(let own) = principal { token = own }
        self.init(
            id: "wh_" + Base64.url.encode((0..<12).map { _ in UInt8.random(in: .min ... .max) }),
            token: token,
            url: url,
            types: Set(known),
            includesURI: includesURI,
            created: .now,
            missed: 0,
            waiting: 0
        )
    }

    private static let names = "there are \(WebhookEventType.allCases.map(\.rawValue).joined(separator: ", "))"
}

/// A message of a webhook, before it is stored.
struct WebhookMessage: Sendable {
    var webhook: String
    var type: WebhookEventType
    /// The device that is to be read again.
    var device: String?
    var body: String

    /// - Parameter data: Ids and outcomes.
    init(_ type: WebhookEventType, to webhook: Webhook, device: String? = nil, _ data: some Encodable, at now: Date) throws {
        (self.webhook, self.type, self.device) = (webhook.id, type, device)
        body = DisplayText.escaped(json: try JSONText.object(Content(type: type, timestamp: now, data: data)))
    }

    private struct Content<Fields: Encodable>: Encodable {
        var type: WebhookEventType
        var timestamp: Date
        var data: Fields
    }
}

/// A webhook, as the API shows it.
struct WebhookResult: Encodable {
    var id: String
    var url: String
    var types: [String]
    var includeURI: Bool
    var created: Date
    /// The id of the token that it ends with.
    var token: String?
    var ended: Date?
    var waiting: Int
    var missed: Int
    /// Only in the answer that makes it.
    var secret: String?

    init(_ webhook: Webhook) {
        (id, url, includeURI, created, ended) = (webhook.id, webhook.url, webhook.includesURI, webhook.created, webhook.ended)
        types = webhook.types.map(\.rawValue).sorted()
        token = webhook.token?.id
        (waiting, missed) = (webhook.waiting, webhook.missed)
    }
}

/// A message that was sent, as the API shows it.
struct WebhookDeliveryResult: Encodable, Sendable {
    enum State: String, Encodable, Sendable {
        case waiting, sending, delivered, abandoned
    }

    var id: String
    var type: String
    var state: State
    var attempts: Int
    /// The status of the last answer; `nil` without one.
    var status: Int?
    /// When it was last sent, or has ended.
    var time: Date
    /// When it is sent again.
    var next: Date?
}
