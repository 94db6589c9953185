// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

@testable import RelayProtocol

/// A key of `keys.json`, for tests only.
struct KeyVector: Codable, Hashable {
    var name: String
    /// The 32 bytes of the private scalar.
    var secret: String
    /// The uncompressed point.
    var point: String
    var spki: String
    /// The identifier of the key.
    var id: String
    /// The key id in commands, for an agreement key.
    var keyID: String

    private enum CodingKeys: String, CodingKey {
        case name, point, spki, id, keyID
        case secret = "private"
    }
}

struct KeyVectors: Codable {
    var keys: [KeyVector]

    func key(_ name: String) throws -> KeyVector {
        guard let key = keys.first(where: { $0.name == name }) else { throw MissingKey(name: name) }
        return key
    }

    struct MissingKey: Error {
        var name: String
    }

    func signing(_ name: String) throws -> P256SigningKey { try P256SigningKey(rawRepresentation: hex(key(name).secret)) }

    func agreement(_ name: String) throws -> P256AgreementKey { try P256AgreementKey(rawRepresentation: hex(key(name).secret)) }

    func link(_ name: String) throws -> P256LinkKey { try P256LinkKey(rawRepresentation: hex(key(name).secret)) }

    func ephemeral(_ name: String) throws -> P256.KeyAgreement.PrivateKey {
        try P256.KeyAgreement.PrivateKey(rawRepresentation: hex(key(name).secret))
    }

    func endpoint(_ name: String) throws -> EndpointID { EndpointID(try signing(name).publicKey) }

    /// Keys whose scalars are the hashes of their names, so that they never change.
    static func made(_ names: [String]) throws -> KeyVectors {
        KeyVectors(
            keys: try names.map { name in
                let secret = Array(SHA256.hash(data: Array("device-relay test key \(name)".utf8)))
                let signing = try P256SigningKey(rawRepresentation: secret)
                let agreement = try P256AgreementKey(rawRepresentation: secret)
                return KeyVector(
                    name: name,
                    secret: hex(secret),
                    point: hex(agreement.publicKey.bytes),
                    spki: hex(signing.publicKey.spki),
                    id: EndpointID(signing.publicKey).description,
                    keyID: hex(agreement.publicKey.keyID)
                )
            }
        )
    }
}
