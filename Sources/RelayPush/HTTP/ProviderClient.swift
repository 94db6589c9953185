// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import AsyncHTTPClient
package import NIOCore
package import NIOHTTP1
import NIOPosix
package import NIOSSL
import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The HTTP client of one provider and credential. Each has its own connections, so that a slow provider delays no other. Apple requires
/// this too: it rejects tokens of two keys on one connection.
package struct ProviderClient: Sendable {
    /// A reply from a provider.
    package struct Reply: Sendable {
        package let status: Int
        package let headers: HTTPHeaders
        package let body: [UInt8]

        /// Returns the pause that the provider asks for, in milliseconds; `nil` if there is none.
        func retryAfter(now: Milliseconds) -> Int64? {
            headers.first(name: "Retry-After").flatMap { HTTPDate.retryAfter($0, now: now.count) }
        }

        /// Returns the parts of the reply that the retry table needs.
        /// - Parameters:
        ///   - reason: The provider's name for the error.
        ///   - id: The provider's id of the notification.
        func summary(now: Milliseconds, reason: String? = nil, id: String? = nil, since: Milliseconds? = nil) -> PushReply {
            PushReply(status: status, reason: reason, id: id, since: since, wait: retryAfter(now: now))
        }
    }

    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// The provider did not answer in time.
        case timedOut
        /// No connection was made.
        case unreachable
        /// The exchange failed.
        case connection

        init(_ error: any Error) {
            switch error {
            case let error as HTTPClientError where error == .connectTimeout: self = .unreachable
            case is NIOConnectionError: self = .unreachable
            case let error as IOError where Self.connectErrors.contains(error.errnoCode): self = .unreachable
            default: self = .connection
            }
        }

        private static let connectErrors: Set<CInt> = [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT]

        package var description: String {
            switch self {
            case .timedOut: "the provider did not answer in time"
            case .unreachable: "the provider cannot be reached"
            case .connection: "the connection to the provider failed"
            }
        }
    }

    static let maximumReplyBytes = 16 << 10
    /// The maximum number of HTTP/1.1 connections to one host. A queue sends as many pushes to it at once.
    static let maximumConnections = 32

    private let client: HTTPClient
    private let timeout: Duration

    /// - Parameters:
    ///   - http1Only: Whether to use HTTP/1.1 only, for providers that require it. Otherwise HTTP/2 is used where the provider offers it.
    ///   - roots: The trusted certificates; the system's by default.
    ///   - addresses: IP addresses by host name. These names are not resolved.
    ///   - idleTimeout: How long an idle connection is kept. Apple treats rapid reconnects as an attack.
    ///   - timeout: The timeout of a whole exchange, including the connection.
    package init(
        http1Only: Bool = false,
        group: any EventLoopGroup,
        roots: NIOSSLTrustRoots = .default,
        addresses: [String: String] = [:],
        idleTimeout: TimeAmount = .minutes(10),
        timeout: Duration = .seconds(15)
    ) {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.trustRoots = roots
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        // A token must not follow a redirect. If a provider moves, the operator configures its new address.
        configuration.redirectConfiguration = .disallow
        configuration.httpVersion = http1Only ? .http1Only : .automatic
        configuration.dnsOverride = addresses
        configuration.connectionPool.idleTimeout = idleTimeout
        // The dispatcher decides when to try again.
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.maximumConnections
        configuration.timeout.connect = .seconds(10)
        // The client's spans have the URL, which can be a secret.
        configuration.tracing.tracer = nil
        self.client = HTTPClient(eventLoopGroupProvider: .shared(group), configuration: configuration)
        self.timeout = timeout
    }

    /// Shuts the client down. Requests in flight fail. Must be called before the client is released.
    package func shutdown() async { try? await client.shutdown() }

    /// Sends a request with a body of known length.
    /// - Parameter ignoresLongBody: Whether a reply with too long a body is accepted without the body. Otherwise the exchange fails.
    func post(_ url: String, headers: HTTPHeaders, body: [UInt8], ignoresLongBody: Bool = false) async throws(Failure) -> Reply {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers = headers
        request.body = .bytes(ByteBuffer(bytes: body))
        let exchange = request
        // The text of an error may contain the URL, which can be a secret. Only the kind of error is passed on.
        let result = await withTaskGroup(of: Result<Reply, Failure>?.self) { [client, timeout] group in
            group.addTask {
                do {
                    // The client's deadline covers only the head of the reply. The timeout here covers the body too.
                    let response = try await client.execute(exchange, deadline: .distantFuture)
                    var body = ByteBuffer()
                    do {
                        body = try await response.body.collect(upTo: Self.maximumReplyBytes)
                    } catch is NIOTooManyBytesError where ignoresLongBody {}
                    return .success(
                        Reply(status: Int(response.status.code), headers: response.headers, body: Array(body.readableBytesView))
                    )
                } catch {
                    return .failure(Failure(error))
                }
            }
            group.addTask {
                try? await Task.sleep(for: timeout)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            return first ?? .failure(.timedOut)
        }
        return try result.get()
    }
}
