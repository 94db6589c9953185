// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import RelayProtocol

/// A token, as it is printed.
package struct TokenResult: Codable, Sendable {
    package var id: String
    package var name: String
    package var scopes: [APIScope]
    package var devices: [String]?
    package var schemes: [String]?
    package var services: [String]?
    package var created: Date
    package var expires: Date
    /// The secret; only in the answer that makes the token.
    package var token: String?

    init(_ token: APIToken) {
        (id, name, scopes) = (token.id, token.name, token.scopes.sorted())
        devices = token.devices?.sorted()
        schemes = token.schemes?.sorted()
        services = token.services?.sorted()
        (created, expires) = (token.created, token.expires)
    }

    /// What limits it, besides its scopes.
    var limits: String {
        let parts = [
            devices.map { "\($0.count) devices" }, schemes.map { $0.joined(separator: ", ") }, services.map { $0.joined(separator: ", ") },
        ]
        return parts.compactMap(\.self).joined(separator: "; ")
    }
}

/// Makes a token for a program that uses the agent's API.
package struct TokenAdd: AgentOnlyCommand {
    var name: String
    var scopes: [APIScope]
    var devices: [String]
    var schemes: [String]
    var services: [String]
    /// `nil` for a year.
    var life: Duration?

    package init(name: String, scopes: [APIScope], devices: [String], schemes: [String], services: [String], life: Duration?) {
        (self.name, self.scopes, self.devices, self.schemes, self.services) = (name, scopes, devices, schemes, services)
        self.life = life
    }

    package struct Result: AgentResult, Codable {
        package var token: TokenResult

        init(_ token: TokenResult) { self.token = token }

        package var notes: [String] {
            ["This is shown once. Who has it may do what its scopes say, until \(LocalTime.text(token.expires))."]
        }
        package func lines(_ style: Style) -> [String] { [token.token ?? ""] }
    }

    private struct Body: Encodable {
        var name: String
        var scopes: [APIScope]
        var devices: [String]?
        var schemes: [String]?
        var services: [String]?
        var expires: Double?
    }

    package func request() throws -> APIRequest {
        func some(_ list: [String]) -> [String]? { list.isEmpty ? nil : list }
        return try APIRequest(.post, "tokens").with(
            body: Body(
                name: name,
                scopes: scopes,
                devices: some(devices),
                schemes: some(schemes),
                services: some(services),
                expires: life.map { $0 / .seconds(1) }
            )
        )
    }
}

/// Lists the tokens.
package struct TokenList: AgentOnlyCommand {
    package init() {}

    package struct Result: AgentResult, Codable {
        package var tokens: [TokenResult]

        package var notes: [String] { tokens.isEmpty ? ["there are no tokens; make one: relay token add NAME --scope launch"] : [] }

        package func lines(_ style: Style) -> [String] {
            guard !tokens.isEmpty else { return [] }
            var table = Table("NAME", "SCOPES", "LIMITS", "EXPIRES", "ID")
            for token in tokens {
                table.add(
                    .init(name: DisplayText.sanitized(token.name), .strong),
                    .init(name: token.scopes.map(\.rawValue).joined(separator: ", ")),
                    .init(token.limits.isEmpty ? "-" : token.limits),
                    .init(LocalTime.text(token.expires)),
                    .init(name: token.id)
                )
            }
            return table.lines(style)
        }
    }

    package func request() -> APIRequest { APIRequest(.get, "tokens") }
}

/// Ends a token at once.
package struct TokenRemove: AgentOnlyCommand {
    var id: String

    /// - Parameter id: Its name or its id.
    package init(id: String) { self.id = id }

    package struct Result: AgentResult, Codable {
        package var removed: String

        package func lines(_ style: Style) -> [String] {
            ["removed the token \(DisplayText.sanitized(removed)); it is refused from now on"]
        }
    }

    package func request() -> APIRequest { APIRequest(.delete, "tokens", id) }
}

/// Shows who did what through the API.
package struct AuditList: AgentOnlyCommand {
    package init() {}

    package struct Entry: Codable, Sendable {
        package var sequence: Int64
        package var time: Date
        package var principal: String
        package var action: String
        package var device: String?
        package var subject: String?
        package var answer: String
    }

    package struct Result: AgentResult, Codable {
        package var entries: [Entry]

        package var notes: [String] { entries.isEmpty ? ["nothing was done through the API in the last 90 days"] : [] }

        package func lines(_ style: Style) -> [String] {
            guard !entries.isEmpty else { return [] }
            var table = Table("TIME", "WHO", "ACTION", "WHAT", "DEVICE", "ANSWER")
            for entry in entries {
                table.add(
                    .init(LocalTime.text(entry.time)),
                    .init(name: entry.principal),
                    .init(name: entry.action),
                    .init(name: entry.subject ?? "-"),
                    .init(name: entry.device.map { String($0.prefix(8)) } ?? "-"),
                    .init(name: entry.answer)
                )
            }
            return table.lines(style)
        }
    }

    package func request() -> APIRequest { APIRequest(.get, "audit") }
}

extension TokenAdd {
    /// Asks a person at the terminal about scopes that decide in the person's place.
    package func confirm(_ context: AgentContext) async throws {
        let deciding = scopes.filter(\.needsQuestion).map(\.rawValue)
        guard !deciding.isEmpty else { return }
        guard let question = context.console.question else {
            throw AgentError("yesRequired", "a token with \(deciding.joined(separator: " and ")) needs a question at a terminal", .usage)
        }
        let lines = ["A program with this token answers in your place: \(deciding.joined(separator: " and "))."]
        guard try await question(lines, "Make it?") else { throw AgentError("cancelled", "no token was made", .failed) }
    }
}
