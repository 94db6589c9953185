// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import NIOCore
import NIOSSL
package import RelayProtocol
import SwiftASN1

/// What an endpoint shows in TLS: a certificate that it signs itself, over its identity key. Only the key in it means anything; names
/// and dates are the same for all.
package struct EndpointCertificate: Sendable {
    let certificate: NIOSSLCertificate
    let privateKey: NIOSSLPrivateKey
    /// Whose it is.
    package let endpoint: EndpointID

    /// Signs a certificate; throws what the key throws.
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
                // No end (RFC 5280 §4.1.2.5).
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

    /// Whose certificate it is; `nil` if its key is none of ours.
    static func endpoint(of certificate: NIOSSLCertificate) -> EndpointID? {
        guard let spki = try? certificate.extractPublicKey().toSPKIBytes(), let key = try? SigningPublicKey(spki: spki) else { return nil }
        return EndpointID(key)
    }
}

/// Signs handshakes with a key that need not be in memory.
private struct SigningKeyForTLS: NIOSSLCustomPrivateKey, Hashable {
    let key: any IdentityKey

    var signatureAlgorithms: [SignatureAlgorithm] { [.ecdsaSecp256R1Sha256] }

    func sign(channel: any Channel, algorithm: SignatureAlgorithm, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        let promise = channel.eventLoop.makePromise(of: ByteBuffer.self)
        // A Secure Enclave takes its time, which is not the event loop's.
        promise.completeWithTask {
            let signature = try P256.Signing.ECDSASignature(rawRepresentation: key.signature(for: Array(data.readableBytesView)))
            return ByteBuffer(bytes: signature.derRepresentation)
        }
        return promise.futureResult
    }

    /// RSA only.
    func decrypt(channel: any Channel, data: ByteBuffer) -> EventLoopFuture<ByteBuffer> {
        channel.eventLoop.makeFailedFuture(NIOSSLError.failedToLoadPrivateKey)
    }

    static func == (left: Self, right: Self) -> Bool { left.key.publicKey == right.key.publicKey }
    func hash(into hasher: inout Hasher) { hasher.combine(key.publicKey) }
}
