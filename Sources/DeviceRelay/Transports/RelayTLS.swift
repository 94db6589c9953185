// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// TLS for connections to a relay, whose key may be pinned.
enum RelayTLS {
    /// - Returns: `nil` for a relay without TLS.
    static func context(for address: RelayAddress) throws(DialFailure) -> NIOSSLContext? {
        guard address.isEncrypted else { return nil }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        // A server that does not answer the TLS shutdown must not keep the socket open.
        configuration.shutdownTimeout = .milliseconds(500)
        // `RelayTrust` checks the name. With a pinned key the certificate may have any name.
        configuration.certificateVerification = .noHostnameVerification
        // `RelayTrust` verifies the chain. Loading the system's roots here would cost about 13 ms for each connection.
        configuration.trustRoots = .certificates([])
        configuration.applicationProtocols = ["http/1.1"]
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw .protocolError("TLS cannot be set up")
        }
    }

    /// - Parameter refused: Called on the channel's event loop during the handshake, before it fails.
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

    /// Closes an abandoned connection below the TLS handler, because the handler forgets a close during the handshake when more handshake
    /// data arrives. The close runs later, because this function may be called from within the handler, which must not be re-entered.
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
    /// Converts an error of connecting. The text does not contain the address.
    init(connecting error: any Error) {
        self =
            switch error {
            case let failure as DialFailure: failure
            case let error as NIOConnectionError where error.connectionErrors.isEmpty: .unreachable("the host name cannot be resolved")
            case let error as NIOConnectionError where error.connectionErrors.allSatisfy({ Self.isNoRoute($0.error) }): .noRoute
            case let error where Self.isNoRoute(error): .noRoute
            case is NIOConnectionError, is IOError: .unreachable("nothing answers there")
            case is ChannelError: .unreachable("no answer")
            default: .unreachable("\(type(of: error))")
            }
    }

    private static func isNoRoute(_ error: any Error) -> Bool {
        guard let error = error as? IOError else { return false }
        return [ENETUNREACH, EHOSTUNREACH, ENETDOWN].contains(error.errnoCode)
    }

    /// Converts an error of an open channel.
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
