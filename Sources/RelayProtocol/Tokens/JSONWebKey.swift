// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation

/// A public key as issuers publish it (RFC 7517). Members of unsupported key types are ignored.
package struct JSONWebKey: JSONReadable, Encodable, Hashable, Sendable {
    package var kty: String
    package var kid: String?
    package var use: String?
    package var alg: String?
    package var crv: String?
    package var x: String?
    package var y: String?
    package var n: String?
    package var e: String?

    package init(
        kty: String,
        kid: String? = nil,
        use: String? = nil,
        alg: String? = nil,
        crv: String? = nil,
        x: String? = nil,
        y: String? = nil,
        n: String? = nil,
        e: String? = nil
    ) {
        self.kty = kty
        self.kid = kid
        self.use = use
        self.alg = alg
        self.crv = crv
        self.x = x
        self.y = y
        self.n = n
        self.e = e
    }

    /// Members of private and symmetric keys (RFC 7518 §6.2.2, §6.3.2, §6.4.1; RFC 8037 §2). A key with one of them is known to others.
    private static let privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"]

    /// Reads a public key. One that comes with its private half is rejected (RFC 9449 §4.3).
    package init(json: JSONValue) throws(JSONError) {
        for member in JSONWebKey.privateMembers where json[member] != nil { throw json.invalid(member) }
        self.kty = try json.member("kty")
        self.kid = try json.optional("kid")
        self.use = try json.optional("use")
        self.alg = try json.optional("alg")
        self.crv = try json.optional("crv")
        self.x = try json.optional("x")
        self.y = try json.optional("y")
        self.n = try json.optional("n")
        self.e = try json.optional("e")
    }

    /// Creates a P-256 key.
    package init(_ key: SigningPublicKey) {
        let point = key.spki.suffix(64)
        self.init(kty: "EC", crv: "P-256", x: Base64.url.encode(point.prefix(32)), y: Base64.url.encode(point.suffix(32)))
    }

    /// The P-256 key; `nil` for another type or an invalid key.
    package var signingKey: SigningPublicKey? {
        guard kty == "EC", crv == "P-256", let x = x.flatMap(Base64.url.decode), let y = y.flatMap(Base64.url.decode), x.count == 32,
            y.count == 32,
            let key = try? P256.Signing.PublicKey(rawRepresentation: x + y)
        else { return nil }
        return SigningPublicKey(key)
    }
}

/// A key set as issuers publish it (RFC 7517 §5).
package struct JSONWebKeySet: JSONReadable, Encodable, Hashable, Sendable {
    package var keys: [JSONWebKey]

    package init(keys: [JSONWebKey]) { self.keys = keys }

    /// Skips unsupported keys, because a set may contain key types that are defined later.
    package init(json: JSONValue) throws(JSONError) {
        let keys: [JSONValue] = try json.member("keys")
        self.keys = keys.compactMap { try? JSONWebKey(json: $0) }
    }
}

extension SigningPublicKey {
    /// The thumbprint that identifies the key in tokens bound to it (RFC 7638, RFC 9449 §6.1): the SHA-256 of its required
    /// members in lexical order, as base64url.
    package var jwkThumbprint: String {
        let point = spki.suffix(64)
        let members =
            #"{"crv":"P-256","kty":"EC","x":"\#(Base64.url.encode(point.prefix(32)))","y":"\#(Base64.url.encode(point.suffix(32)))"}"#
        return Base64.url.encode(SHA256.hash(data: [UInt8](members.utf8)))
    }
}
