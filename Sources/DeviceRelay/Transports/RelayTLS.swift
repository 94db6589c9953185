// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// TLS to a relay, whose key may be pinned.
enum RelayTLS {
    /// - Returns: `nil` for a relay without TLS.
    static func context(for address: RelayAddress) throws(DialFailure) -> NIOSSLContext? {
        guard address.isEncrypted else { return nil }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        // Whoever does not end TLS in turn must not keep the socket open for long.
        configuration.shutdownTimeout = .milliseconds(500)
        // The name is checked with the authorities; a pinned key may show any.
        configuration.certificateVerification = .noHostnameVerification
        // `RelayTrust` judges the chain. Reading the system's roots for nothing takes some 13 ms for each connection.
        configuration.trustRoots = .certificates([])
        configuration.applicationProtocols = ["http/1.1"]
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw .protocolError("TLS cannot be set up")
        }
    }

    /// - Parameter refused: Called on the channel's loop within the handshake, before it fails.
    static func handler(
        _ context: NIOSSLContext,
        _ address: RelayAddress,
        _ trust: RelayTrust,
        refused: @escaping @Sendable (RelayTrustError) -> Void
    ) throws -> NIOSSLClientHandler {
        let isAddress = (try? SocketAddress(ipAddress: address.host, port: 0)) != nil
        return try NIOSSLClientHandler(
            context: context,
            serverHostname: isAddress ? nil : address.host,
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
                promise.futureResult.eventLoop
                    .makeFutureWithTask { await trust.verdict(byAuthoritiesOf: chain, host: address.host) }
                    .map(result)
                    .cascade(to: promise)
            }
        )
    }

    /// Closes a connection that is given up, below TLS: its handler forgets a close in the midst of the handshake when more of that
    /// arrives. Not at once, since this may come from within the handler, which must not be entered again.
    static func hangUp(_ channel: any Channel) {
        channel.eventLoop.execute {
            if let context = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self) {
                context.close(promise: nil)
            } else {
                channel.close(promise: nil)
            }
        }
    }
}

extension DialFailure {
    /// Why no connection came about, in a few words, without what was dialled.
    init(connecting error: any Error) {
        self =
            switch error {
            case let failure as DialFailure: failure
            case let error as NIOConnectionError where error.connectionErrors.isEmpty: .unreachable("the host name cannot be resolved")
            case is NIOConnectionError, is IOError: .unreachable("nothing answers there")
            case is ChannelError: .unreachable("no answer")
            default: .unreachable("\(type(of: error))")
            }
    }

    /// Why a connection cannot be used.
    init(onChannel error: any Error) {
        self =
            switch error {
            case is IOError, is ChannelError, HTTPParserError.invalidEOFState,
                NIOSSLError.handshakeFailed(.sslError([.eofDuringHandshake])),
                NIOSSLError.uncleanShutdown:
                .hungUp
            case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: .protocolError("TLS failed")
            case is HTTPParserError: .protocolError("the answer is not HTTP")
            default: .protocolError("\(type(of: error))")
            }
    }
}
