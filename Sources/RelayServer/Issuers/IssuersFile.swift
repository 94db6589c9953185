// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
import RelayStorage

/// The issuers that a relay trusts, as a JSON file names them: `{"embedded": true, "issuers": [{"issuer": …}]}`.
package struct IssuersFile: Sendable {
    /// Whether the relay's own issuer is one of them, and serves.
    package var isEmbeddedTrusted = true
    package var issuers: [IssuerSettings] = []

    package init() {}

    /// - Parameter environment: Where `clientSecretVariable` is looked up.
    package init(path: String, environment: [String: String]) throws(ConfigurationError) {
        guard let data = FileManager.default.contents(atPath: path) else { throw ConfigurationError("issuersFile: \(path) cannot be read") }
        var entry: Int?
        do {
            let json = try JSONValue(file: [UInt8](data))
            try json.check(members: ["embedded", "issuers"])
            isEmbeddedTrusted = try json.optional("embedded") ?? true
            let entries: [JSONValue] = try json.optional("issuers") ?? []
            for (index, value) in entries.enumerated() {
                entry = index
                issuers.append(try IssuerSettings(json: value, environment: environment))
            }
        } catch {
            let place = entry.map { " entry \($0 + 1):" } ?? ""
            throw ConfigurationError("issuersFile: \(path):\(place) \(error)")
        }
        guard isEmbeddedTrusted || !issuers.isEmpty else {
            throw ConfigurationError("issuersFile: \(path): without the embedded issuer, name at least one")
        }
        guard Set(issuers.map(\.url)).count == issuers.count else {
            throw ConfigurationError("issuersFile: \(path): an issuer is named twice")
        }
        guard issuers.count(where: { $0.credentials != nil }) <= 1 else {
            throw ConfigurationError("issuersFile: \(path): an opaque token names no issuer, so only one may have the mode introspection")
        }
    }
}

/// An entry of `IssuersFile`.
package struct IssuerSettings: Sendable {
    package var url: IssuerURL
    package var audience: TrustedIssuer.AudienceRule
    /// Of the relay as a client that may introspect tokens; `nil` if tokens are verified by the issuer's keys.
    package var credentials: ClientCredentials?
    package var scopesClaim: String
    package var needsScopes: Bool
    package var accountClaim: String
    package var autoProvision: Bool
    package var allowedClients: Set<String>?
    package var typeCheck: TrustedIssuer.TypeCheck
    /// How often the issuer is asked again about the token of an open channel.
    package var recheckSeconds: Int

    fileprivate init(json: JSONValue, environment: [String: String]) throws {
        try json.check(members: [
            "issuer", "mode", "audience", "scopesClaim", "needsScopes", "accountClaim", "autoProvision", "allowedClients", "typeCheck",
            "clientID", "clientSecretFile", "clientSecretVariable", "recheckSeconds",
        ])
        let text: String = try json.member("issuer")
        guard let url = IssuerURL(text) else {
            throw ConfigurationError("'\(text)' is no https URL without query and fragment (http only on loopback)")
        }
        self.url = url
        audience = try json.member("audience")
        let mode: Mode = try json.optional("mode") ?? .jwt
        credentials = try mode == .introspection ? Self.credentials(json, environment) : nil
        scopesClaim = try json.optional("scopesClaim") ?? "scope"
        needsScopes = try json.optional("needsScopes") ?? true
        accountClaim = try json.optional("accountClaim") ?? "sub"
        // Most providers have users that the relay's operator does not know.
        autoProvision = try json.optional("autoProvision") ?? false
        let clients: [String]? = try json.optional("allowedClients")
        allowedClients = clients.map { Set($0) }
        typeCheck = try json.optional("typeCheck") ?? .strict
        recheckSeconds = try json.optional("recheckSeconds") ?? 60
        guard (1...60).contains(recheckSeconds) else { throw ConfigurationError("recheckSeconds: \(recheckSeconds) is not from 1 to 60") }
    }

    private enum Mode: String, JSONReadable {
        case jwt, introspection
    }

    private static func credentials(_ json: JSONValue, _ environment: [String: String]) throws -> ClientCredentials {
        let id: String = try json.member("clientID")
        let file: String? = try json.optional("clientSecretFile")
        let variable: String? = try json.optional("clientSecretVariable")
        let secret: String?
        switch (file, variable) {
        case (let path?, nil):
            // For the relay's user alone, like the other keys.
            let bytes = try PrivateFile.contents(of: path)
            // Editors end a file with a line feed.
            secret = bytes.map { String(decoding: $0, as: UTF8.self).split(whereSeparator: \.isNewline).first.map(String.init) ?? "" }
        case (nil, let name?): secret = environment[name]
        default: throw ConfigurationError("clientID needs clientSecretFile or clientSecretVariable, and not both")
        }
        guard let secret, !secret.isEmpty else { throw ConfigurationError("the secret of \(file ?? variable ?? "") is missing or empty") }
        return ClientCredentials(id: id, secret: Secret(secret))
    }

    /// What the operator should know of the entry although it is valid.
    /// - Parameter origins: The relay's URLs.
    package func warnings(origins: [Origin]) -> [String] {
        var warnings: [String] = []
        let own = origins.map(\.description)
        let foreign: [String] =
            switch audience {
            case .exactly(let text): [text]
            case .anyOf(let texts): texts.sorted()
            case .scope(let scope): ["the scope \(scope)"]
            }
        let others = foreign.filter { text in !own.contains { $0 == text || $0 + "/" == text } }
        if !others.isEmpty {
            warnings.append(
                "\(url): its tokens for \(others.joined(separator: " and ")) may also be meant for other services, whose operators could use "
                    + "them here; give its entry the audience \(own.first ?? ""), and let the issuer write it into tokens for this relay"
            )
        }
        if !Self.permanentClaims.contains(accountClaim) {
            warnings.append(
                "\(url): accountClaim is \(accountClaim); if users can change it there, they can enter the accounts of others; use sub"
            )
        }
        return warnings
    }

    /// The claims that identify a user for ever: `sub` (OpenID Connect Core §5.7), and Microsoft Entra's `oid`.
    private static let permanentClaims: Set<String> = ["sub", "oid"]

    /// - Parameter now: The relay's clock.
    package func trusted(now: @escaping @Sendable () -> Milliseconds) -> TrustedIssuer {
        let remote = RemoteIssuer(url: url, credentials: credentials, now: now)
        let check: TrustedIssuer.Check =
            credentials == nil ? .keys { try await remote.keys() } : .introspection { try await remote.introspect($0) }
        var trusted = TrustedIssuer(key: url.description, urls: [url.description], audience: audience, check: check)
        trusted.scopesClaim = scopesClaim
        trusted.needsScopes = needsScopes
        trusted.accountClaim = accountClaim
        trusted.autoProvision = autoProvision
        trusted.allowedClients = allowedClients
        trusted.typeCheck = typeCheck
        trusted.recheck = Milliseconds(clamping: Int64(recheckSeconds) * 1_000)
        return trusted
    }
}

extension TrustedIssuer.AudienceRule: JSONReadable {
    /// A text is exactly this audience, a list is any of them, and `{"scope": …}` is a scope.
    package init(json: JSONValue) throws(JSONError) {
        if let text = try? String(json: json) {
            self = .exactly(text)
        } else if let texts = try? [String](json: json) {
            self = .anyOf(Set(texts))
        } else {
            self = .scope(try json.member("scope"))
        }
    }
}

extension TrustedIssuer.TypeCheck: JSONReadable {}

extension JSONValue {
    /// Rejects unknown members, because an ignored one would mislead the operator.
    fileprivate func check(members: Set<String>) throws {
        guard let own = try? object() else { throw ConfigurationError("this is not a JSON object, {…}") }
        guard let unknown = own.map(\.key).first(where: { !members.contains($0) }) else { return }
        throw ConfigurationError("\(unknown): there is no such member")
    }
}
