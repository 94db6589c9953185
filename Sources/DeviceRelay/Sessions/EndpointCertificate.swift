// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import NIOCore
import NIOSSL
package import RelayProtocol
import SwiftASN1

/// The TLS certificate of an endpoint. The endpoint signs it itself, with its identity key. Only the key in it is significant; names and
/// dates are the same in all certificates.
package struct EndpointCertificate: Sendable {
    let certificate: NIOSSLCertificate
    let privateKey: NIOSSLPrivateKey
    /// The endpoint whose key the certificate contains.
    package let endpoint: EndpointID

    /// Creates and signs a certificate. It rethrows the errors of the key.
    package init(_ key: any IdentityKey) throws {
        let publicKey = key.publicKey
        let body = try Self.body(spki: publicKey.spki)
        var serializer = DER.Serializer()
        try serializer.appendConstructedNode(identifier: .sequence) { serializer in
            serializer.serializeRawBytes(body)
            try Self.appendAlgorithm(to: &serializer)
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: key.signature(for: body))
            try serializer.serialize(ASN1BitString(bytes: ArraySlice(signature.derRepresentation)))
        }
        certificate = try NIOSSLCertificate(bytes: serializer.serializedBytes, format: .der)
        privateKey = NIOSSLPrivateKey(customPrivateKey: SigningKeyForTLS(key: key))
        endpoint = EndpointID(publicKey)
    }

    /// TBSCertificate, RFC 5280 §4.1.
    private static func body(spki: [UInt8]) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.appendConstructedNode(identifier: .sequence) { serializer in
            let version = ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific)
            try serializer.appendConstructedNode(identifier: version) { try $0.serialize(2) }
            try serializer.serialize(1)
            try appendAlgorithm(to: &serializer)
            try appendName(to: &serializer)
            try serializer.appendConstructedNode(identifier: .sequence) { serializer in
                try serializer.serialize(
                    UTCTime(year: 1970, month: 1, day: 1, hours: 0, minutes: 0, seconds: 0)
                )
                // This value means: no expiry (RFC 5280 §4.1.2.5).
                try serializer.serialize(
                    GeneralizedTime(year: 9999, month: 12, day: 31, hours: 23, minutes: 59, seconds: 59, fractionalSeconds: 0)
                )
            }
            try appendName(to: &serializer)
            serializer.serializeRawBytes(spki)
        }
        return serializer.serializedBytes
    }

    /// ecdsa-with-SHA256, RFC 5758 §3.2.
    private static func appendAlgorithm(to serializer: inout DER.Serializer) throws {
        try serializer.appendConstructedNode(identifier: .sequence) { serializer in
            try serializer.serialize(ASN1ObjectIdentifier(elements: [1, 2, 840, 10045, 4, 3, 2]))
        }
    }

    private static func appendName(to serializer: inout DER.Serializer) throws {
        try serializer.appendConstructedNode(identifier: .sequence) { serializer in
            try serializer.appendConstructedNode(identifier: .set) { serializer in
                try serializer.appendConstructedNode(identifier: .sequence) { serializer in
                    try serializer.serialize(ASN1ObjectIdentifier(elements: [2, 5, 4, 3]))
                    try serializer.serialize(ASN1UTF8String("Device Relay endpoint"))
                }
            }
        }
    }

    /// The endpoint of a certificate; `nil` if its key is not of the type that endpoints use.
    static func endpoint(of certificate: NIOSSLCertificate) -> EndpointID? {
        guard let spki = try? certificate.extractPublicKey().toSPKIBytes(), let key = try? SigningPublicKey(spki: spki) else { return nil }
        return EndpointID(key)
    }
}

/// Signs TLS handshakes with a key that may be in a secure store.
private struct SigningKeyForTLS: NIOSSLCustomPrivateKey, Hashable {
    let key: any IdentityKey

    var signatureAlgorithms: [SignatureAlgorithm] { [.ecdsaSecp256R1Sha256] }

    func sign(channel: any Channel, algorithm: SignatureAlgorithm, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        let promise = channel.eventLoop.makePromise(of: ByteBuffer.self)
        // A Secure Enclave is slow, so the signature is made outside the event loop.
        promise.completeWithTask {
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: key.signature(for: Array(data.readableBytesView)))
            return ByteBuffer(bytes: signature.derRepresentation)
        }
        return promise.futureResult
    }

    /// Used only with RSA keys.
    func decrypt(channel: any Channel, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFailedFuture(NIOSSLError.failedToLoadPrivateKey)
    }

    static func == (left: Self, right: Self) -> Bool { left.key.publicKey == right.key.publicKey }
    func hash(into hasher: inout Hasher) { hasher.combine(key.publicKey) }
}
