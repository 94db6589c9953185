// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import RelayProtocol

/// What waits for a person, and what a person has allowed.
extension APIRoutes {
    var askRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/asks", .scope(.asks), asks),
            APIRoute(.post, "/v1/asks/{id}", .scope(.asks), answer),
            APIRoute(.get, "/v1/grants", .scope(.grants), listGrants),
            APIRoute(.post, "/v1/grants", .scope(.grants), addGrant),
            APIRoute(.delete, "/v1/grants/{id}", .scope(.grants), removeGrant),
        ]
    }

    /// With `after` and a wait, it answers once the questions have changed.
    private func asks(_ exchange: APIExchange) async throws -> Response {
        let after = exchange.query("after").map { Int($0) }
        if case .some(.none) = after { throw AgentError("usage", "after is the sequence of a list", .usage) }
        let wait = try exchange.preference().wait
        // Who follows the list can answer.
        if let after = after ?? nil {
            board.readerCame()
            defer { board.readerLeft() }
            await board.wait(after: after, within: wait)
        }
        // The board does not know what the person has compared.
        let unverified = Set(local.endpoints.filter { $0.isConfirmed && !$0.isVerified }.map { "\($0.id)" })
        let sequence = board.changes
        let asks = board.open.filter { exchange.principal.sees($0.device.id) }.map { ask in
            var ask = ask
            ask.device.unverified = unverified.contains(ask.device.endpoint)
            return ask
        }
        return try exchange.json(AskList.Result(asks: asks, sequence: sequence))
    }

    private func answer(_ exchange: APIExchange) async throws -> Response {
        let id = try exchange.parameter("id")
        let body = try await exchange.body(fields: ["answer", "until", "handler"])
        let word: String = try body.required("answer")
        let until = try Self.date(try body.optional("until"))
        let ask = board.open.first { $0.id == id }
        if let ask, !exchange.principal.sees(ask.device.id) { throw Self.noAsk }
        let handler: String? = try body.optional("handler")
        if let ask, let handler, ask.handlers?.contains(where: { $0.id == handler }) != true {
            throw AgentError("usage", "handler is the id of a program that the question lists", .usage)
        }
        let answer: AskAnswer
        switch word {
        case "once": answer = .once(handler: handler)
        case "no": answer = .no
        case "always":
            try exchange.principal.require(.grants)
            guard ask?.canAlways ?? true else {
                throw AgentError(
                    "usage",
                    "this is asked each time: the device is not a known one, or the page is of the local network",
                    .usage
                )
            }
            let until = until ?? .now + GrantBook.longestLife
            try GrantBook.check(until)
            answer = .always(until: until, handler: handler)
        default: throw AgentError("usage", "the answer is once, always or no", .usage)
        }
        if ask?.kind == .newDevice {
            throw AgentError("usage", "a new device is answered by POST /v1/endpoints/\(id)/approval or /revocation", .usage)
        }
        let subject = ask?.uri.flatMap { $0.split(separator: ":").first.map(String.init) } ?? ask?.kind.rawValue
        return try await audited(exchange, "answer", device: ask?.device.id, subject: subject) {
            switch board.take(answer, for: id) {
            case .taken: return (try exchange.json(AskReply.Result(ask: id, answer: word)), ask?.device.id, word)
            case .answered: throw APIRefusal(409, AgentError("answered", "somebody else has answered this question already", .failed))
            case .over: throw APIRefusal(410, AgentError("over", "this question is over", .expired))
            case .unknown: throw Self.noAsk
            }
        }
    }

    private static let noAsk = AgentError("notFound", "there is no such question: relay asks", .notFound)

    private static func date(_ text: String?) throws -> Date? {
        guard let text else { return nil }
        guard let date = try? Date(text, strategy: .iso8601) else {
            throw AgentError("untilInvalid", "until is a time such as 2030-01-31T12:00:00Z", .usage)
        }
        return date
    }

    // MARK: Grants

    private func listGrants(_ exchange: APIExchange) async throws -> Response {
        let all = try await grants.all().filter { exchange.principal.sees($0.device) }
        return try exchange.json(GrantList.Result(grants: all))
    }

    private func addGrant(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["device", "known", "scheme", "transfer", "until"])
        let device: String? = try body.optional("device")
        guard (device == nil) == (try body.optional("known") ?? false) else {
            throw AgentError("usage", "give either a device, or known: true for all known devices", .usage)
        }
        let scheme: String? = try body.optional("scheme")
        guard (scheme == nil) == (try body.optional("transfer") ?? false) else {
            throw AgentError("usage", "give either a scheme, or transfer: true", .usage)
        }
        let subject = scheme.map { Grant.Subject.scheme($0.lowercased()) } ?? .transfer
        let until = try Self.date(try body.optional("until")) ?? .now + GrantBook.longestLife
        let id = try await knownDevice(device)
        try exchange.principal.require(.grants, .init(device: id, schemes: Set([scheme?.lowercased()].compactMap(\.self))))
        guard exchange.principal.sees(id) else {
            throw APIRefusal(403, AgentError("insufficientScope", "this token is for some devices only", .declined))
        }
        return try await audited(exchange, "grant", device: id, subject: scheme ?? "transfer") {
            let grant = try await grants.add(subject, device: id, until: until, source: .command)
            return (try exchange.json(GrantAdd.Result(grant: grant), status: .created), id, "granted")
        }
    }

    /// The whole id of a known device.
    private func knownDevice(_ text: String?) async throws -> String? {
        guard let text else { return nil }
        let id = "\(try await local.target(text).0.id)"
        // Of a device with several endpoints, one known endpoint is enough: a new one is asked about in any case.
        guard local.endpoints.contains(where: { "\($0.systemID)" == id && $0.trust != .new && !$0.isLocal }) else {
            throw AgentError("deviceNotKnown", "this is for known devices of this account; approve it first: relay approve", .usage)
        }
        return id
    }

    private func removeGrant(_ exchange: APIExchange) async throws -> Response {
        let id = try exchange.parameter("id")
        let grant = try await grants.all().first { $0.id == id }
        if let grant, !exchange.principal.sees(grant.device) {
            throw AgentError("notFound", "there is no such grant: relay grants list", .notFound)
        }
        return try await audited(exchange, "grant remove", device: grant?.device) {
            try await grants.remove(id)
            return (try exchange.json(GrantRemove.Result(removed: id)), nil, "removed")
        }
    }
}
