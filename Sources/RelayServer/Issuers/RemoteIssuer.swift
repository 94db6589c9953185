// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOHTTP1
package import RelayProtocol

/// What an issuer publishes of itself (RFC 8414, OpenID Connect Discovery).
struct IssuerMetadata: JSONReadable, Hashable, Sendable {
    var issuer: String
    var keys: IssuerURL?
    var introspection: IssuerURL?
    /// Where the issuer itself is.
    var reach = NetworkReach.loopback

    init(json: JSONValue) throws(JSONError) {
        issuer = try json.member("issuer")
        let keys: String? = try json.optional("jwks_uri")
        let introspection: String? = try json.optional("introspection_endpoint")
        self.keys = keys.flatMap { IssuerURL($0) }
        self.introspection = introspection.flatMap { IssuerURL($0) }
    }
}

/// An issuer on another server: reads its metadata and keys, and asks it about tokens.
package actor RemoteIssuer {
    /// How long metadata is used without reading it again, in milliseconds. It stays in use while the issuer is not reachable.
    private static let metadataLife: Int64 = 3_600_000

    private let url: IssuerURL
    private let credentials: ClientCredentials?
    private let now: @Sendable () -> Milliseconds
    private let http: IssuerHTTPClient
    private var metadata: (value: IssuerMetadata, readAt: Int64)?

    /// - Parameter isPublic: Tells addresses of the public Internet from others.
    package init(
        url: IssuerURL,
        credentials: ClientCredentials?,
        now: @escaping @Sendable () -> Milliseconds,
        isPublic: @escaping @Sendable (IPAddress) -> Bool = { $0.isPublic }
    ) {
        self.url = url
        self.credentials = credentials
        self.now = now
        self.http = IssuerHTTPClient(isPublic: isPublic)
    }

    package func keys() async throws -> FetchedKeys {
        let metadata = try await currentMetadata()
        guard let address = metadata.keys else { throw IssuerHTTPClient.Failure.addressMissing }
        let answer = try await http.send(to: address, nearest: metadata.reach)
        guard answer.status == 200 else { throw IssuerHTTPClient.Failure.status(answer.status) }
        let keys = try JSONWebKeySet(json: JSONValue(parsing: answer.body))
        return FetchedKeys(keys, freshFor: Self.freshness(answer.headers))
    }

    /// Asks about a token (RFC 7662).
    package func introspect(_ token: Secret<String>) async throws -> IntrospectionAnswer {
        let metadata = try await currentMetadata()
        guard let address = metadata.introspection else { throw IssuerHTTPClient.Failure.addressMissing }
        let form = Secret("token=\(FormCoding.encode(token.exposed))&token_type_hint=access_token")
        let answer = try await http.send(to: address, authorization: credentials?.basic, form: form, nearest: metadata.reach)
        if answer.refusesClient { throw IssuerHTTPClient.Failure.credentialsRefused }
        guard answer.status == 200 else { throw IssuerHTTPClient.Failure.status(answer.status) }
        return try IntrospectionAnswer(json: JSONValue(parsing: answer.body))
    }

    private func currentMetadata() async throws -> IssuerMetadata {
        let time = now().count
        if let metadata, (0..<Self.metadataLife).contains(time - metadata.readAt) { return metadata.value }
        // Others use the old metadata while they are read again, and for a minute if that fails.
        let old = metadata?.value
        if let old { metadata = (old, time - Self.metadataLife + 60_000) }
        do {
            let value = try await readMetadata()
            metadata = (value, time)
            return value
        } catch {
            guard let old else { throw error }
            return old
        }
    }

    private func readMetadata() async throws -> IssuerMetadata {
        var failure: any Error = IssuerHTTPClient.Failure.malformed
        for address in url.metadataAddresses {
            do {
                let answer = try await http.send(to: address)
                guard answer.status == 200 else { throw IssuerHTTPClient.Failure.status(answer.status) }
                var value = try IssuerMetadata(json: JSONValue(parsing: answer.body))
                value.reach = answer.reach
                // Otherwise one issuer could publish another one's keys as its own (RFC 8414 §3.3).
                guard value.issuer.utf8.elementsEqual(url.description.utf8) else { throw IssuerHTTPClient.Failure.malformed }
                return value
            } catch {
                failure = error
            }
        }
        throw failure
    }

    /// The `max-age` of `Cache-Control`.
    private static func freshness(_ headers: HTTPHeaders) -> Milliseconds? {
        for directive in headers[canonicalForm: "cache-control"] {
            let parts = directive.lowercased().split(separator: "=", maxSplits: 1)
            guard parts.count == 2, parts[0] == "max-age", let seconds = Int64(parts[1]), seconds >= 0 else { continue }
            return Milliseconds(clamping: min(seconds, 31_536_000) * 1_000)
        }
        return nil
    }
}

extension IssuerHTTPClient.Answer {
    /// Whether the server rejects the credentials of the request (RFC 6749 §5.2). Servers use several statuses.
    fileprivate var refusesClient: Bool {
        if status == 401 || status == 403 { return true }
        let error = try? JSONValue(parsing: body)["error"].flatMap { try? String(json: $0) }
        return status == 400 && ["invalid_client", "unauthorized_client"].contains(error)
    }
}

/// The relay's credentials as a client of an issuer.
package struct ClientCredentials: Hashable, Sendable {
    package var id: String
    package var secret: Secret<String>

    package init(id: String, secret: Secret<String>) {
        self.id = id
        self.secret = secret
    }

    /// For the `Authorization` field (RFC 6749 §2.3.1).
    var basic: Secret<String> {
        let pair = "\(FormCoding.encode(id)):\(FormCoding.encode(secret.exposed))"
        return Secret("Basic " + Base64.standard.encode(Array(pair.utf8)))
    }
}

/// What an issuer says of a token (RFC 7662 §2.2).
package struct IntrospectionAnswer: JSONReadable, Sendable {
    /// `nil` if the token is not active.
    let claims: TokenClaims?

    package init(json: JSONValue) throws(JSONError) {
        let isActive: Bool = try json.member("active")
        claims = isActive ? try TokenClaims(json: json) : nil
    }
}
