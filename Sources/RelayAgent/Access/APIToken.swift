// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A credential of a program. Its text is shown once; only the digest is stored.
struct APIToken: Hashable, Sendable, Identifiable {
    /// Shown in lists, and the principal of its commands.
    var id: String
    var name: String
    var scopes: Set<APIScope>
    /// Whole device ids; `nil` for all.
    var devices: Set<String>?
    /// In lower case; `nil` for all.
    var schemes: Set<String>?
    /// Names of app services; `nil` for all.
    var services: Set<String>?
    var created: Date
    var expires: Date

    /// The services that no token may call: they have scopes of their own.
    static let closedServices: Set<String> = ["files", "share"]
    static let maximum = 64
    static let longestLife = Duration.seconds(366 * 86_400)

    /// A new secret and its digest.
    static func secret() -> (text: String, digest: Digest256) {
        var random = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        let text = "drt_" + Base64.url.encode(bytes)
        return (text, digest(of: text))
    }

    static func digest(of text: String) -> Digest256 { Digest256(hashing: Array(text.utf8)) }
}

/// Who makes a request.
enum Principal: Sendable {
    /// The user that the agent runs as.
    case owner
    /// This user's browser.
    case console(ConsoleAccess.Session)
    /// Nobody, before a one-time key is exchanged.
    case stranger
    case token(APIToken)

    /// The name in the audit, and of its keys.
    var id: String {
        switch self {
        case .owner: "owner"
        // The sessions of one person share keys and entries of the audit.
        case .console: "console"
        case .stranger: "stranger"
        case .token(let token): "token:\(token.id)"
        }
    }

    /// What a request does with a device. Routes without one of these pass `nil`.
    struct Use: Sendable {
        var device: String?
        /// The schemes of the URI and of the fallback, in lower case.
        var schemes: Set<String> = []
        var service: String?

        init(device: String? = nil, schemes: Set<String> = [], service: String? = nil) {
            (self.device, self.schemes, self.service) = (device, schemes, service)
        }
    }

    /// - Throws: `APIRefusal` with 403 if a token may not do this.
    func require(_ scope: APIScope, _ use: Use = Use()) throws {
        let token: APIToken
        switch self {
        case .owner, .console: return
        case .stranger: throw Self.refusal("this needs a session")
        case .token(let sent): token = sent
        }
        guard token.scopes.contains(scope) else { throw Self.refusal("the token '\(token.name)' has not the scope \(scope.rawValue)") }
        if let device = use.device, let devices = token.devices, !devices.contains(device) {
            throw Self.refusal("the token '\(token.name)' is not for this device")
        }
        if let schemes = token.schemes, let scheme = use.schemes.subtracting(schemes).min() {
            throw Self.refusal("the token '\(token.name)' is not for \(scheme): URIs")
        }
        guard let service = use.service else { return }
        guard !APIToken.closedServices.contains(service) else {
            throw Self.refusal("no token may call the service \(service); it has routes and a scope of its own")
        }
        if let services = token.services, !services.contains(service) {
            throw Self.refusal("the token '\(token.name)' is not for the service \(service)")
        }
    }

    /// Whether it may see a device, and what concerns it. What concerns no known device is hidden from a token for some devices.
    func sees(_ device: String?) -> Bool {
        guard case .token(let token) = self, let devices = token.devices else { return true }
        return device.map(devices.contains) ?? false
    }

    func requirePerson() throws {
        if case .console = self { return }
        guard case .owner = self else { throw Self.refusal("only the person may do this, not a token") }
    }

    func requireOwner() throws {
        guard case .owner = self else { throw Self.refusal("this is done by the command line of this machine alone: relay") }
    }

    private static func refusal(_ message: String) -> APIRefusal { APIRefusal(403, AgentError("insufficientScope", message, .declined)) }
}

extension APIToken {
    /// A new token of what a request asks for.
    /// - Parameter life: One year by default.
    /// - Throws: `AgentError` that says what is wrong.
    init(
        name: String,
        scopes: [String],
        devices: [String]?,
        schemes: [String]?,
        services: [String]?,
        life: Duration?
    ) throws {
        guard (1...64).contains(name.utf8.count), !name.hasControlCharacters else {
            throw AgentError("nameInvalid", "a token's name has 1 to 64 bytes without control characters", .usage)
        }
        guard !scopes.isEmpty else { throw AgentError("scopeInvalid", "name at least one scope: \(Self.scopeNames)", .usage) }
        let known = try scopes.map { text in
            guard let scope = APIScope(rawValue: text) else {
                throw AgentError("scopeInvalid", "there is no scope '\(text)'; there are \(Self.scopeNames)", .usage)
            }
            return scope
        }
        // The ids of devices and endpoints have one form.
        for device in devices ?? [] where EndpointID(device) == nil {
            throw AgentError("idInvalid", "a token is for whole device ids, as `relay devices --json` prints them", .usage)
        }
        for scheme in schemes ?? [] where !Self.isScheme(scheme) {
            throw AgentError("schemeInvalid", "'\(scheme)' is not the scheme of a URI", .usage)
        }
        if let closed = (services ?? []).first(where: Self.closedServices.contains) {
            throw AgentError("serviceInvalid", "no token may call \(closed); it has a scope of its own", .usage)
        }
        let now = Date.now
        self.init(
            id: TypedID.make(),
            name: name,
            scopes: Set(known),
            devices: devices.map(Set.init),
            schemes: schemes.map { Set($0.map { $0.lowercased() }) },
            services: services.map(Set.init),
            created: now,
            expires: now + (life ?? .seconds(365 * 86_400)) / .seconds(1)
        )
    }

    private static let scopeNames = APIScope.allCases.map(\.rawValue).joined(separator: ", ")

    /// RFC 3986, section 3.1.
    private static func isScheme(_ text: String) -> Bool {
        guard let first = text.utf8.first, text.utf8.count <= 64 else { return false }
        func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
        return isLetter(first) && text.utf8.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || "+-.".utf8.contains($0) }
    }
}
