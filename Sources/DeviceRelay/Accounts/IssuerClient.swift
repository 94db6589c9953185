// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOHTTP1
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A client of the issuer at the relay's own address.
struct IssuerClient: Sendable {
    let endpoint: EndpointCredentials
    let address: RelayAddress
    private let http: HTTPRequestClient

    /// - Parameter address: The relay's address; `nil` for the one that the endpoint dials.
    init(_ endpoint: EndpointCredentials, at address: RelayAddress? = nil, http: HTTPRequestClient = HTTPRequestClient()) {
        self.endpoint = endpoint
        self.address = address ?? endpoint.address
        self.http = http
    }

    // MARK: Discovery

    /// The metadata of an issuer.
    struct Issuer: Hashable {
        var url: RelayURL
        var tokenEndpoint: RelayURL
        /// The revocation endpoint (RFC 7009); `nil` if the issuer has none.
        var revocationEndpoint: RelayURL?
        /// The invitation endpoint, which is not standardised: below the issuer's URL.
        var invitationEndpoint: RelayURL
    }

    /// Discovers the issuer at the relay's own address from the relay's metadata (RFC 9728) and the issuer's (RFC 8414). All
    /// URLs must be at that address, so that codes and tokens are not sent elsewhere.
    func discover() async throws(IssuerClientError) -> Issuer {
        struct Resource: Decodable {
            var servers: [String]

            enum CodingKeys: String, CodingKey {
                case servers = "authorization_servers"
            }
        }
        let resource = try await get("/.well-known/oauth-protected-resource", Resource.self)
        for text in resource.servers.prefix(64) {
            if let url = RelayURL(text, at: address) { return try await metadata(of: url) }
        }
        throw .noIssuer
    }

    private func metadata(of issuer: RelayURL) async throws(IssuerClientError) -> Issuer {
        struct Metadata: Decodable {
            var issuer: String
            var tokenEndpoint: String
            var revocationEndpoint: String?

            enum CodingKeys: String, CodingKey {
                case issuer
                case tokenEndpoint = "token_endpoint"
                case revocationEndpoint = "revocation_endpoint"
            }
        }
        let suffix = issuer.path == "/" ? "" : issuer.path
        let metadata = try await get("/.well-known/oauth-authorization-server\(suffix)", Metadata.self)
        guard metadata.issuer == issuer.text else { throw .malformed("its name differs from the one that the relay sent") }
        guard let token = RelayURL(metadata.tokenEndpoint, at: address),
            let invitations = RelayURL(issuer.text + "/invitations", at: address)
        else { throw .malformed("its token endpoint is elsewhere") }
        return Issuer(
            url: issuer,
            tokenEndpoint: token,
            revocationEndpoint: metadata.revocationEndpoint.flatMap { RelayURL($0, at: address) },
            invitationEndpoint: invitations
        )
    }

    private func get<Content: Decodable>(_ path: String, _: Content.Type) async throws(IssuerClientError) -> Content {
        let answer = try await send(HTTPRequest(.GET, path, headers: ["Accept": "application/json"]))
        guard answer.status == 200 else { throw failure(answer) }
        return try content(answer)
    }

    // MARK: Requests

    /// Sends a request with a proof of the endpoint's key. If the issuer rejects the proof, the request is repeated once with
    /// the issuer's time, because the local clock may be wrong.
    /// - Parameter token: An access token that the proof is bound to.
    func post(
        _ url: RelayURL,
        form: [(String, Secret<String>)] = [],
        accessToken token: AccessToken? = nil
    ) async throws(IssuerClientError) -> HTTPAnswer {
        var headers: HTTPHeaders = ["Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"]
        if let token { headers.add(name: "Authorization", value: "\(token.isBound ? "DPoP" : "Bearer") \(token.value)") }
        let body = Array(form.map { "\($0)=\(FormCoding.encode($1.exposed))" }.joined(separator: "&").utf8)
        var time = endpoint.now()
        for attempt in 1...2 {
            do {
                let proof = try endpoint.proof(method: "POST", url: url.text, accessToken: token?.value, time: time)
                headers.replaceOrAdd(name: "DPoP", value: proof)
            } catch {
                throw .keyUnusable
            }
            let answer = try await send(HTTPRequest(.POST, url.path, headers: headers, body: body))
            if answer.status == 200 { return answer }
            let failure = failure(answer)
            guard attempt == 1, failure == .refused(.invalidDPoPProof), let date = answer.date else { throw failure }
            time = date
        }
        throw .refused(.invalidDPoPProof)
    }

    private func send(_ request: HTTPRequest) async throws(IssuerClientError) -> HTTPAnswer {
        do throws(RequestFailure) {
            return try await http.send(request, to: address, trust: endpoint.trust)
        } catch {
            switch error {
            case .cancelled: throw .cancelled
            case .failed(let failure): throw .unreachable(failure)
            }
        }
    }

    func content<Content: Decodable>(_ answer: HTTPAnswer) throws(IssuerClientError) -> Content {
        guard let content = try? JSONDecoder().decode(Content.self, from: Data(answer.body)) else {
            throw .malformed("its answer lacks required members")
        }
        return content
    }

    private func failure(_ answer: HTTPAnswer) -> IssuerClientError {
        struct Problem: Decodable {
            var error: String
            /// A member that only this project's issuer sends.
            var reason: String?
        }
        guard (400...499).contains(answer.status), answer.status != 429,
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(answer.body))
        else { return .unavailable(status: answer.status) }
        let code = IssuerClientError.Code(rawValue: problem.error) ?? .other
        if code == .invalidGrant, problem.reason.flatMap(ControlErrorCode.init(rawValue:)) == .endpointRevoked { return .endpointRevoked }
        return code == .temporarilyUnavailable ? .unavailable(status: answer.status) : .refused(code)
    }
}
