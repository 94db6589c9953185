// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
import RelayProtocol

/// Which of the issuers that a relay trusts is used.
enum IssuerChoice: Hashable, Sendable {
    /// The issuer at the relay's own address.
    case relaysOwn
    /// The issuer at the relay's own address, or else the first one that the relay names.
    case any
    /// The issuer with this name. The relay has to name it too.
    case named(String)
}

/// A client of an issuer that the relay trusts.
struct IssuerClient: Sendable {
    let endpoint: EndpointCredentials
    /// The relay's address.
    let address: RelayAddress
    /// The scopes that the user has named for the issuer's API, instead of the relay's; `nil` for the relay's. The relay's own issuer gets
    /// its own scopes. Only the user names them: what a relay says never leaves `resource` out.
    let userScopes: [String]?
    private let http: HTTPRequestClient

    /// - Parameters:
    ///   - address: The relay's address; `nil` for the one that the endpoint dials.
    ///   - userScopes: The scopes that the user has named.
    init(
        _ endpoint: EndpointCredentials,
        at address: RelayAddress? = nil,
        userScopes: [String]? = nil,
        http: HTTPRequestClient = HTTPRequestClient()
    ) {
        self.endpoint = endpoint
        self.address = address ?? endpoint.address
        self.userScopes = userScopes.flatMap { $0.isEmpty ? nil : $0 }
        self.http = http
    }

    /// The relay that the tokens are for (RFC 8707). A provider that knows several relays can then limit a token to one. A scope of an API
    /// names the API already, and Microsoft Entra refuses both together. The relay checks the audience in any case.
    func resource(at issuer: Issuer) -> [(String, Secret<String>)] {
        issuer.isRelaysOwn || userScopes == nil ? [("resource", Secret(endpoint.address.origin))] : []
    }

    /// The text of the `scope` parameter for a sign-in.
    func scopeParameter(for scopes: Set<AccessTokenScope>, at issuer: Issuer) -> String {
        issuer.scopeParameter(for: scopes, ofAPI: userScopes)
    }

    // MARK: Discovery

    /// The metadata of an issuer.
    struct Issuer: Hashable {
        var url: ServerURL
        /// Whether it is at the relay's own address. Then all its endpoints are.
        var isRelaysOwn: Bool
        var tokenEndpoint: ServerURL
        /// RFC 7009.
        var revocationEndpoint: ServerURL?
        /// RFC 8628.
        var deviceAuthorizationEndpoint: ServerURL?
        /// RFC 7591.
        var registrationEndpoint: ServerURL?
        /// A page.
        var authorizationEndpoint: URL?
        /// Whether the endpoint's key can sign proofs that the issuer accepts (RFC 9449).
        var takesProofs: Bool
        /// Whether each authorization response names the issuer (RFC 9207).
        var namesItselfInResponses: Bool
        /// The scopes that it lists; `nil` if it lists none.
        var scopes: Set<String>?
        /// Whether it cannot define the relay's scopes, as the relay says.
        var lacksRelayScopes = false

        /// Whether a choice means this issuer.
        func isOf(_ choice: IssuerChoice) -> Bool {
            switch choice {
            case .relaysOwn: isRelaysOwn
            case .any: true
            case .named(let name): url.text.utf8.elementsEqual(name.utf8)
            }
        }

        /// Its URL, if it is a provider and not the relay's own issuer.
        var foreignName: String? { isRelaysOwn ? nil : url.text }

        /// The invitation endpoint, which is not standardised: below the issuer's URL. Only the relay's own issuer has one.
        var invitationEndpoint: ServerURL? { isRelaysOwn ? ServerURL(url.text + "/invitations", at: url.address) : nil }

        /// The text of the `scope` parameter for a sign-in. Other issuers may reject scopes that they do not know. They need not list those
        /// that they know (RFC 8414 §2): if an issuer lists none of the relay's, all of them are requested.
        /// - Parameter api: Scopes that take the place of the relay's.
        func scopeParameter(for scopes: Set<AccessTokenScope>, ofAPI api: [String]? = nil) -> String {
            let names = Set(scopes.map(\.rawValue))
            guard !isRelaysOwn else { return Self.text(names) }
            let relays = names.filter { $0.utf8.starts(with: "relay.".utf8) }
            let known = self.scopes ?? names
            let listed = relays.intersection(known)
            let others = names.subtracting(relays).union(["openid"]).intersection(known)
            if let api { return Self.text(others.union(api)) }
            return Self.text(others.union(lacksRelayScopes ? [] : listed.isEmpty ? relays : listed))
        }

        private static func text(_ names: Set<String>) -> String { names.sorted().joined(separator: " ") }
    }

    /// Discovers an issuer from the relay's metadata (RFC 9728) and the issuer's (RFC 8414, or OpenID Connect Discovery). All
    /// URLs of the relay's own issuer must be at its address, so that codes and tokens are not sent elsewhere.
    func discover(_ choice: IssuerChoice) async throws(IssuerClientError) -> Issuer {
        struct Resource: Decodable {
            var servers: [String]
            var serversWithoutScopes: [String]?

            enum CodingKeys: String, CodingKey {
                case servers = "authorization_servers"
                case serversWithoutScopes = "authorization_servers_without_scopes"
            }
        }
        let path = "/.well-known/oauth-protected-resource"
        let answer = try await get(path, at: address)
        guard answer.status == 200 else { throw failure(answer, of: nil) }
        let resource: Resource = try content(answer, of: nil)
        let servers = resource.servers.prefix(64)
        let own = servers.lazy.compactMap { ServerURL($0, at: address) }.first
        let url: ServerURL? =
            switch choice {
            case .relaysOwn: own
            case .any: own ?? servers.lazy.compactMap { ServerURL($0, namedBy: address) }.first
            case .named(let name):
                servers.first { Self.isSame($0, name) }.flatMap { ServerURL($0, at: address) ?? ServerURL($0, namedBy: address) }
            }
        guard let url else { throw choice == .relaysOwn ? .noIssuer : .issuerNotTrusted }
        var issuer = try await metadata(of: url)
        issuer.lacksRelayScopes = resource.serversWithoutScopes?.contains { $0.utf8.elementsEqual(url.text.utf8) } ?? false
        return issuer
    }

    /// Whether a person means an issuer. A slash at the end does not matter to them.
    private static func isSame(_ issuer: String, _ name: String) -> Bool {
        func bare(_ text: String) -> Substring.UTF8View {
            text.utf8.last == UInt8(ascii: "/") ? text.utf8.dropLast() : text.utf8[...]
        }
        return bare(issuer).elementsEqual(bare(name))
    }

    private struct Metadata: Decodable {
        var issuer: String
        var tokenEndpoint: String
        var revocationEndpoint: String?
        var deviceAuthorizationEndpoint: String?
        var registrationEndpoint: String?
        var authorizationEndpoint: String?
        var proofAlgorithms: [String]?
        var namesItself: Bool?
        var scopes: [String]?

        enum CodingKeys: String, CodingKey {
            case issuer
            case tokenEndpoint = "token_endpoint"
            case revocationEndpoint = "revocation_endpoint"
            case deviceAuthorizationEndpoint = "device_authorization_endpoint"
            case registrationEndpoint = "registration_endpoint"
            case authorizationEndpoint = "authorization_endpoint"
            case proofAlgorithms = "dpop_signing_alg_values_supported"
            case namesItself = "authorization_response_iss_parameter_supported"
            case scopes = "scopes_supported"
        }
    }

    private func metadata(of issuer: ServerURL) async throws(IssuerClientError) -> Issuer {
        let suffix = issuer.path.utf8.last == UInt8(ascii: "/") ? String(decoding: issuer.path.utf8.dropLast(), as: UTF8.self) : issuer.path
        var answer = try await get("/.well-known/oauth-authorization-server\(suffix)", at: issuer.address)
        if (400...499).contains(answer.status) {
            answer = try await get("\(suffix)/.well-known/openid-configuration", at: issuer.address)
        }
        let isOwn = issuer.address.server == address.server
        let name = isOwn ? nil : issuer.text
        guard answer.status == 200 else { throw failure(answer, of: name) }
        let metadata: Metadata = try content(answer, of: name)
        guard metadata.issuer.utf8.elementsEqual(issuer.text.utf8) else {
            throw .malformed("issuer differs from the name that the relay sent", issuer: name)
        }
        func endpoint(_ text: String?) -> ServerURL? {
            text.flatMap { isOwn ? ServerURL($0, at: address) : ServerURL($0, namedBy: address) }
        }
        guard let token = endpoint(metadata.tokenEndpoint) else {
            throw .malformed("token_endpoint is not its own https URL", issuer: name)
        }
        return Issuer(
            url: issuer,
            isRelaysOwn: isOwn,
            tokenEndpoint: token,
            revocationEndpoint: endpoint(metadata.revocationEndpoint),
            deviceAuthorizationEndpoint: endpoint(metadata.deviceAuthorizationEndpoint),
            registrationEndpoint: endpoint(metadata.registrationEndpoint),
            authorizationEndpoint: metadata.authorizationEndpoint.flatMap { ServerURL.page($0, namedBy: address) },
            takesProofs: isOwn || metadata.proofAlgorithms?.contains("ES256") ?? false,
            namesItselfInResponses: metadata.namesItself ?? false,
            scopes: metadata.scopes.map(Set.init)
        )
    }

    private func get(_ path: String, at server: RelayAddress) async throws(IssuerClientError) -> HTTPAnswer {
        try await send(HTTPRequest(.GET, path, headers: ["Accept": "application/json"]), to: server)
    }

    // MARK: Requests

    /// Sends a form, with a proof of the endpoint's key if the issuer accepts one. If the issuer rejects the proof, the request is
    /// repeated once with the issuer's time, because the local clock may be wrong.
    /// - Parameters:
    ///   - token: An access token that the proof is bound to.
    ///   - exchange: It begins when the form is sent.
    func post(
        _ url: ServerURL,
        of issuer: Issuer,
        form: [(String, Secret<String>)] = [],
        accessToken token: AccessToken? = nil,
        exchange: UnstoredExchange? = nil
    ) async throws(IssuerClientError) -> HTTPAnswer {
        var headers: HTTPHeaders = ["Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"]
        if let token { headers.add(name: "Authorization", value: "\(token.isBound ? "DPoP" : "Bearer") \(token.value)") }
        let body = Array(form.map { "\($0)=\(FormCoding.encode($1.exposed))" }.joined(separator: "&").utf8)
        var time = endpoint.now()
        for attempt in 1...2 {
            if issuer.takesProofs {
                do {
                    let proof = try endpoint.proof(method: "POST", url: url.text, accessToken: token?.value, time: time)
                    headers.replaceOrAdd(name: "DPoP", value: proof)
                } catch {
                    throw .keyUnusable
                }
            }
            let answer = try await send(HTTPRequest(.POST, url.path, headers: headers, body: body), to: url.address, exchange)
            if answer.status == 200 { return answer }
            let failure = failure(answer, of: issuer.foreignName)
            guard attempt == 1, failure == .refused(.invalidDPoPProof), let date = answer.date else { throw failure }
            time = date
        }
        throw .refused(.invalidDPoPProof)
    }

    /// Sends a JSON document, and expects that it creates something.
    func create(at url: ServerURL, of issuer: Issuer, _ document: some Encodable) async throws(IssuerClientError) -> HTTPAnswer {
        guard let body = try? JSONEncoder().encode(document) else { throw .malformed("its request cannot be written") }
        let headers: HTTPHeaders = ["Accept": "application/json", "Content-Type": "application/json"]
        let answer = try await send(HTTPRequest(.POST, url.path, headers: headers, body: Array(body)), to: url.address)
        // RFC 7591 demands 201. Some issuers answer 200.
        guard answer.status == 201 || answer.status == 200 else { throw failure(answer, of: issuer.foreignName) }
        return answer
    }

    private func send(
        _ request: HTTPRequest,
        to server: RelayAddress,
        _ exchange: UnstoredExchange? = nil
    ) async throws(IssuerClientError) -> HTTPAnswer {
        // Only the relay itself is known by its key.
        let isRelay = server.server == address.server || server.server == endpoint.address.server
        do throws(RequestFailure) {
            let trust = isRelay ? endpoint.trust : endpoint.trust.withoutKey
            return try await http.send(request, to: server, trust: trust, exchange: exchange)
        } catch {
            switch error {
            case .cancelled: throw .cancelled
            case .failed(let failure): throw isRelay ? .unreachable(failure) : .issuerUnreachable(failure)
            }
        }
    }

    /// - Parameter issuer: The name of a provider that answered; `nil` for the relay or its own issuer.
    func content<Content: Decodable>(_ answer: HTTPAnswer, of issuer: String?) throws(IssuerClientError) -> Content {
        do {
            return try JSONDecoder().decode(Content.self, from: Data(answer.body))
        } catch let error as DecodingError {
            throw .malformed(Self.fault(error), issuer: issuer)
        } catch {
            throw .malformed("it is not JSON", issuer: issuer)
        }
    }

    /// Which member is missing or wrong. It contains nothing from the answer.
    private static func fault(_ error: DecodingError) -> String {
        func name(_ path: [any CodingKey]) -> String { path.map(\.stringValue).joined(separator: ".") }
        return switch error {
        case .keyNotFound(let key, _): "\(key.stringValue) is missing"
        case .typeMismatch(_, let context) where !context.codingPath.isEmpty,
            .valueNotFound(_, let context) where !context.codingPath.isEmpty,
            .dataCorrupted(let context) where !context.codingPath.isEmpty:
            "\(name(context.codingPath)) has no valid value"
        default: "it is not a JSON object"
        }
    }

    private func failure(_ answer: HTTPAnswer, of issuer: String?) -> IssuerClientError {
        struct Problem: Decodable {
            var error: String
            /// A member that only this project's issuer sends.
            var reason: String?
        }
        guard (400...499).contains(answer.status), answer.status != 429,
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(answer.body))
        else { return .unavailable(status: answer.status, issuer: issuer) }
        let code = IssuerClientError.Code(rawValue: problem.error) ?? .other
        if code == .invalidGrant, problem.reason.flatMap(ControlErrorCode.init(rawValue:)) == .endpointRevoked { return .endpointRevoked }
        if code == .invalidGrant, problem.reason?.utf8.elementsEqual("linkReused".utf8) ?? false { return .linkReused }
        if let issuer, [.invalidClient, .unauthorizedClient, .unsupportedGrantType].contains(code) {
            return .clientRefused(issuer: issuer, code)
        }
        return code == .temporarilyUnavailable ? .unavailable(status: answer.status, issuer: issuer) : .refused(code)
    }
}

/// A number of seconds, also as text of digits, which some providers send.
struct IssuerSeconds: Decodable, Hashable {
    var value: Double

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let number = try? container.decode(Double.self) {
            value = number
        } else {
            let text = try container.decode(String.self)
            guard (1...18).contains(text.utf8.count), text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = Double(text)
            else { throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number") }
            value = number
        }
    }
}
