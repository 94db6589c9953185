// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
package import NIOSSL
import RelayProtocol
import SwiftASN1
import Synchronization
import X509

/// The TLS context with the certificate for new connections.
package final class TLSContext: Sendable {
    package enum Source: Sendable {
        /// PEM files with the chain and its key.
        case files(certificate: String, key: String)
        /// A self-signed certificate over the relay's own key. Endpoints pin the key, so names and dates do not matter.
        case ownKey(RelayKey)
    }

    private struct Loaded {
        var context: NIOSSLContext
        var expires: Date?
    }

    private let source: Source
    private let loaded: Mutex<Loaded>

    package init(_ source: Source) throws(TLSError) {
        self.source = source
        self.loaded = Mutex(try Self.make(source))
    }

    package var current: NIOSSLContext { loaded.withLock(\.context) }

    /// When the certificate of the files expires; `nil` for the relay's own one, whose dates do not matter.
    var expires: Date? { loaded.withLock(\.expires) }

    /// Reloads the files. An error leaves the current certificate in place.
    package func reload() throws(TLSError) {
        let new = try Self.make(source)
        loaded.withLock { $0 = new }
    }

    private static func make(_ source: Source) throws(TLSError) -> Loaded {
        do {
            var settings: TLSConfiguration
            var expires: Date?
            switch source {
            case .files(let certificate, let key):
                let chain = try NIOSSLCertificate.fromPEMFile(certificate)
                expires = try chain.first.map { try Certificate(derEncoded: $0.toDERBytes()).notValidAfter }
                settings = .makeServerConfiguration(
                    certificateChain: chain.map { .certificate($0) },
                    privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
                )
            case .ownKey(let key):
                let certificate = try NIOSSLCertificate(bytes: try Self.certificate(over: key), format: .der)
                settings = .makeServerConfiguration(
                    certificateChain: [.certificate(certificate)],
                    privateKey: .privateKey(try NIOSSLPrivateKey(bytes: Array(key.privateKey.derRepresentation), format: .der))
                )
            }
            settings.minimumTLSVersion = .tlsv12
            settings.applicationProtocols = ["http/1.1"]
            return Loaded(context: try NIOSSLContext(configuration: settings), expires: expires)
        } catch {
            switch source {
            case .files(let certificate, let key): throw TLSError(.found(in: certificate, key))
            case .ownKey: throw TLSError(.ownKey)
            }
        }
    }

    /// A certificate over the relay's key, as PEM.
    package static func certificatePEM(over key: RelayKey) throws -> String {
        try makeCertificate(over: key).serializeAsPEM().pemString
    }

    private static func certificate(over key: RelayKey) throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(try makeCertificate(over: key))
        return serializer.serializedBytes
    }

    private static func makeCertificate(over key: RelayKey) throws -> Certificate {
        let privateKey = Certificate.PrivateKey(key.privateKey)
        let name = try DistinguishedName { CommonName("Device Relay \(key.id.label)") }
        let now = Date()
        return try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: privateKey.publicKey,
            notValidBefore: now - 86_400,
            notValidAfter: now + 10 * 365 * 86_400,
            issuer: name,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.serverAuth])
            },
            issuerPrivateKey: privateKey
        )
    }
}

/// Why there is no certificate. The description contains advice.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    enum Problem: Hashable {
        case notReadable(String)
        case noCertificate(String)
        case noKey(String)
        case notAPair(certificate: String, key: String)
        case ownKey

        /// The problem of files that could not be loaded.
        static func found(in certificate: String, _ key: String) -> Problem {
            for path in [certificate, key] where !FileManager.default.isReadableFile(atPath: path) { return .notReadable(path) }
            guard let chain = try? NIOSSLCertificate.fromPEMFile(certificate), !chain.isEmpty else { return .noCertificate(certificate) }
            guard (try? NIOSSLPrivateKey(file: key, format: .pem)) != nil else { return .noKey(key) }
            return .notAPair(certificate: certificate, key: key)
        }
    }

    private let problem: Problem

    init(_ problem: Problem) { self.problem = problem }

    package var description: String {
        switch problem {
        case .notReadable(let path): "\(path) cannot be read; check the path, and that it belongs to the user that runs relayd"
        case .noCertificate(let path): "\(path) holds no certificate in PEM"
        case .noKey(let path): "\(path) holds no private key in PEM, or one with a password"
        case .notAPair(let certificate, let key):
            "\(key) is not the key of the first certificate in \(certificate); the relay's own certificate comes first in the chain"
        case .ownKey: "no certificate can be made over \(RelayKey.fileName)"
        }
    }
}
