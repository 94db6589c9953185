// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOSSL
import RelayProtocol

/// TLS between two endpoints. Each presents the certificate of its identity key, and only that key is checked.
enum SessionTLS {
    /// The endpoints that are accepted as the peer.
    enum Trust: Sendable {
        /// For the client: exactly this endpoint.
        case exactly(EndpointID)
        /// For the client: any endpoint, which has to prove more than its key later.
        case anyServer
        /// For the server: any endpoint for which the closure returns true.
        case anyone(isKnown: @Sendable (EndpointID) async -> Bool)
    }

    /// Creates a handler for one session. It has its own TLS context, so session tickets are never reused and each session proves its keys
    /// again.
    static func handler(
        _ certificate: EndpointCertificate,
        _ trust: Trust,
        _ applicationProtocols: [String],
        verified: @escaping @Sendable (EndpointID) -> Void
    ) throws -> any ChannelHandler {
        func client(_ isExpected: @escaping @Sendable (EndpointID) -> Bool) throws -> any ChannelHandler {
            try NIOSSLClientHandler(context: try context(.client, certificate, applicationProtocols), serverHostname: nil) {
                chain,
                promise in
                guard let id = chain.first.flatMap(EndpointCertificate.endpoint), isExpected(id) else { return promise.succeed(.failed) }
                verified(id)
                promise.succeed(.certificateVerified)
            }
        }
        switch trust {
        case .exactly(let peer): return try client { $0 == peer }
        case .anyServer: return try client { _ in true }
        case .anyone(let isKnown):
            return NIOSSLServerHandler(context: try context(.server, certificate, applicationProtocols)) { chain, promise in
                guard let id = chain.first.flatMap(EndpointCertificate.endpoint) else { return promise.succeed(.failed) }
                promise.completeWithTask {
                    guard await isKnown(id) else { return .failed }
                    verified(id)
                    return .certificateVerified
                }
            }
        }
    }

    private enum Side { case client, server }

    private static func context(_ side: Side, _ certificate: EndpointCertificate, _ applicationProtocols: [String]) throws -> NIOSSLContext
    {
        let chain = [NIOSSLCertificateSource.certificate(certificate.certificate)]
        var configuration: TLSConfiguration
        switch side {
        case .client:
            configuration = .makeClientConfiguration()
            configuration.certificateChain = chain
            configuration.privateKey = .privateKey(certificate.privateKey)
        case .server:
            configuration = .makeServerConfiguration(certificateChain: chain, privateKey: .privateKey(certificate.privateKey))
        }
        configuration.minimumTLSVersion = .tlsv13
        configuration.applicationProtocols = applicationProtocols
        configuration.signingSignatureAlgorithms = [.ecdsaSecp256R1Sha256]
        configuration.verifySignatureAlgorithms = [.ecdsaSecp256R1Sha256]
        // Both sides must present a certificate. Only the handlers' closures verify it.
        configuration.certificateVerification = .noHostnameVerification
        configuration.trustRoots = .certificates([])
        configuration.shutdownTimeout = .milliseconds(500)
        return try NIOSSLContext(configuration: configuration)
    }
}
