// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOSSL

/// TLS towards a relay.
enum RelayTLS {
    /// Adds TLS to a channel.
    /// - Parameter refused: Called when the relay is not believed, before the handshake fails.
    static func add(
        to channel: any Channel,
        host: String,
        _ trust: RelayTrust,
        refused: @escaping @Sendable (RelayTrustProblem) -> Void
    ) throws {
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        let handler = try NIOSSLClientHandler(
            context: try context(),
            serverHostname: isAddress ? nil : host,
            customVerificationCallback: { chain, promise in
                @Sendable func result(_ verdict: RelayTrust.Verdict) -> NIOSSLVerificationResult {
                    switch verdict {
                    case .trusted: return .certificateVerified
                    case .refused(let problem): refused(problem)
                    case .undecided: break
                    }
                    return .failed
                }
                let verdict = trust.verdict(byKeyOf: chain)
                guard verdict == .undecided else { return promise.succeed(result(verdict)) }
                promise.completeWithTask { result(await trust.verdict(byAuthoritiesOf: chain, host: host)) }
            }
        )
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    private static func context() throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        // Whoever does not end TLS in turn must not keep the socket open for long.
        configuration.shutdownTimeout = .milliseconds(500)
        // The name is checked with the authorities; a pinned key may show any.
        configuration.certificateVerification = .noHostnameVerification
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }
}
