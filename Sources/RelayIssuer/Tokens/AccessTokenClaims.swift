// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The scopes of a token.
package struct Scopes: Hashable, Sendable, CustomStringConvertible {
    static let offlineAccess = "offline_access"
    static let all = Scopes([offlineAccess, "relay.device.read", "relay.device.register", "relay.command", "relay.push"])

    /// Sorted, without duplicates.
    let names: [String]

    private init(_ names: some Sequence<String>) { self.names = Set(names).sorted() }

    /// Parses a list separated by spaces (RFC 6749 §3.3); `nil` if it is empty or contains an unknown scope.
    package init?(parsing text: String) {
        let names = text.split(separator: " ").map(String.init)
        guard !names.isEmpty, names.allSatisfy(Scopes.all.names.contains) else { return nil }
        self.init(names)
    }

    /// Reads the scopes that a client requests. Unknown scopes, such as `openid`, are ignored. The response names the others (RFC 6749
    /// §3.3). `nil` if none is known.
    init?(requested text: String) {
        let names = text.split(separator: " ").map(String.init).filter(Scopes.all.names.contains)
        guard !names.isEmpty else { return nil }
        self.init(names)
    }

    var canRefresh: Bool { names.contains(Scopes.offlineAccess) }

    func isSubset(of other: Scopes) -> Bool { Set(names).isSubset(of: other.names) }

    package var description: String { names.joined(separator: " ") }
}

/// The claims of an access token (RFC 9068).
struct AccessTokenClaims: JSONReadable, Encodable, Hashable, Sendable {
    static let life: Int64 = 900_000

    var iss: String
    var sub: String
    var aud: String
    var exp: NumericDate
    var iat: NumericDate
    var jti: String
    var clientID: String
    var scope: String
    /// The login of the token. A revocation refers to it.
    var sid: String?
    var cnf: Confirmation?
    /// The endpoint whose invitation started the login.
    var invitedBy: String?
    /// When the login began. It stays the same when the token is renewed.
    var authTime: NumericDate?

    struct Confirmation: JSONReadable, Encodable, Hashable, Sendable {
        var jkt: String

        init(jkt: String) { self.jkt = jkt }

        init(json: JSONValue) throws(JSONError) { self.jkt = try json.member("jkt") }
    }

    private enum CodingKeys: String, CodingKey {
        case iss, sub, aud, exp, iat, jti, scope, sid, cnf
        case clientID = "client_id"
        case invitedBy = "invited_by"
        case authTime = "auth_time"
    }

    /// - Parameters:
    ///   - session: The login of the token.
    ///   - key: The thumbprint of the key that the token is bound to.
    ///   - invitedBy: The endpoint whose invitation started the login.
    ///   - begun: When the login began.
    init(
        issuer: String,
        audience: String,
        subject: String,
        client: String,
        scopes: Scopes,
        session: String?,
        key: String?,
        invitedBy: EndpointID? = nil,
        begun: Milliseconds? = nil,
        id: [UInt8],
        now: Milliseconds
    ) {
        self.iss = issuer
        self.sub = subject
        self.aud = audience
        self.iat = NumericDate(now)
        self.exp = NumericDate(Milliseconds(clamping: now.count + AccessTokenClaims.life))
        self.jti = Base64.url.encode(id)
        self.clientID = client
        self.scope = scopes.description
        self.sid = session
        self.cnf = key.map(Confirmation.init(jkt:))
        self.invitedBy = invitedBy.map { "\($0)" }
        self.authTime = begun.map(NumericDate.init)
    }

    init(json: JSONValue) throws(JSONError) {
        self.iss = try json.member("iss")
        self.sub = try json.member("sub")
        self.aud = try json.member("aud")
        self.exp = try json.member("exp")
        self.iat = try json.member("iat")
        self.jti = try json.member("jti")
        self.clientID = try json.member("client_id")
        self.scope = try json.member("scope")
        self.sid = try json.optional("sid")
        self.cnf = try json.optional("cnf")
        self.invitedBy = try json.optional("invited_by")
        self.authTime = try json.optional("auth_time")
    }

    func signed(by key: P256SigningKey, id: String) throws -> Secret<String> {
        Secret(try SignedJSON.sign(self, header: .init(alg: "ES256", typ: "at+jwt", kid: id), with: key))
    }
}
