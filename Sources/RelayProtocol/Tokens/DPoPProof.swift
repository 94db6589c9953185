// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation

/// Proves that a request comes from the holder of a key (RFC 9449). Each request needs a new proof by the key that its
/// access token is, or will be, bound to.
package struct DPoPProof: Hashable, Sendable {
    package static let type = "dpop+jwt"
    /// The permitted clock difference, in milliseconds. A proof is valid for at most twice this time.
    package static let leeway: Int64 = 60_000

    /// The key that signed the proof.
    package let key: SigningPublicKey
    /// Identifies the proof for replay detection: a hash of the key and `jti`.
    package let id: Digest256
    /// When it was made, by the client's clock.
    package let made: Milliseconds
    /// The time from which the proof is expired and its id may be forgotten.
    package let ends: Milliseconds

    private struct Claims: JSONReadable, Encodable {
        var jti: String
        var htm: String
        var htu: String
        var iat: NumericDate
        var ath: String?

        init(jti: String, htm: String, htu: String, iat: NumericDate, ath: String?) {
            self.jti = jti
            self.htm = htm
            self.htu = htu
            self.iat = iat
            self.ath = ath
        }

        init(json: JSONValue) throws(JSONError) {
            self.jti = try json.member("jti")
            self.htm = try json.member("htm")
            self.htu = try json.member("htu")
            self.iat = try json.member("iat")
            self.ath = try json.optional("ath")
        }
    }

    /// Creates a proof for one request. `jti` is random; `accessToken` is the token that the request presents.
    package static func make(
        method: String,
        url: String,
        jti: [UInt8],
        now: Milliseconds,
        accessToken: String? = nil,
        with key: some SigningKey
    ) throws -> String {
        let claims = Claims(
            jti: Base64.url.encode(jti),
            htm: method,
            htu: url,
            iat: NumericDate(now),
            ath: accessToken.map(hash)
        )
        return try SignedJSON.sign(claims, header: .init(alg: "ES256", typ: type, jwk: JSONWebKey(key.publicKey)), with: key)
    }

    /// Checks everything except replay.
    /// - Parameters:
    ///   - urls: The URLs of the requested resource, without query and fragment.
    ///   - accessToken: The token that the request presents, if any.
    package init(
        checking text: String,
        method: String,
        urls: some Sequence<String>,
        now: Milliseconds,
        accessToken: String? = nil
    ) throws(DPoPError) {
        let proof: SignedJSON
        let claims: Claims
        do throws(SignedJSONError) {
            proof = try SignedJSON(parsing: text)
            guard proof.header.typ?.lowercased() == DPoPProof.type else { throw SignedJSONError.malformed }
            claims = try proof.claims(Claims.self)
        } catch {
            throw .malformed
        }
        guard proof.header.alg == "ES256" else { throw .algorithm }
        guard let key = proof.header.jwk?.signingKey else { throw .malformed }
        guard key.isValid(proof.signature, for: proof.signed) else { throw .signature }
        guard (1...256).contains(claims.jti.utf8.count) else { throw .malformed }
        guard claims.htm == method else { throw .method }
        guard urls.contains(where: { $0.utf8.elementsEqual(claims.htu.utf8) }) else { throw .url }
        guard abs(claims.iat.time.count - now.count) <= DPoPProof.leeway else { throw .time }
        if let accessToken {
            guard claims.ath == DPoPProof.hash(accessToken) else { throw .accessToken }
        }
        self.key = key
        self.id = Digest256(hashing: key.spki + Array(claims.jti.utf8))
        self.made = claims.iat.time
        self.ends = Milliseconds(clamping: claims.iat.time.count + DPoPProof.leeway + 1)
    }

    private static func hash(_ accessToken: String) -> String {
        Base64.url.encode(SHA256.hash(data: [UInt8](accessToken.utf8)))
    }
}

/// Why a proof is rejected. It contains nothing from the proof.
package enum DPoPError: Error, Hashable, Sendable, CustomStringConvertible {
    case malformed
    case algorithm
    case signature
    case method
    case url
    case time
    case accessToken

    package var description: String {
        switch self {
        case .malformed: "the DPoP proof is no dpop+jwt with a public P-256 key in `jwk`, and jti, htm, htu and iat"
        case .algorithm: "the DPoP proof must be signed with ES256"
        case .signature: "the DPoP proof is not signed by the key in its header"
        case .method: "the DPoP proof's htm is not this request's method"
        case .url: "the DPoP proof's htu is none of this server's addresses for what was asked"
        case .time: "the DPoP proof's iat is more than 60 s from this server's clock; the Date header has the time to use"
        case .accessToken: "the DPoP proof's ath is not the hash of the access token"
        }
    }
}
