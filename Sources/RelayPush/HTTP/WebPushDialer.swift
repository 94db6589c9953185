// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import NIOHTTP1
package import NIOSSL
package import RelayProtocol
import RelayResolver

/// Posts to an address that a user gave.
package protocol WebPushDialing: Sendable {
    func post(_ target: DialTarget, headers: HTTPHeaders, body: [UInt8]) async throws(WebPushDialError) -> ProviderClient.Reply

    /// Must be called once, before the dialer is released.
    func shutdown() async
}

package enum WebPushDialError: Error, Hashable, Sendable {
    /// The address is not allowed.
    case forbidden(String)
    case unreachable
}

/// Dials push services by their https URLs, and only at public addresses, unless the operator allows others. A registration must not make
/// the relay connect into its own network.
///
/// A name is resolved once, all its addresses are checked, and only these are dialled. A name that changes its address after the check is
/// not resolved again.
package struct WebPushDialer: WebPushDialing {
    package struct Policy: Sendable {
        /// Whether addresses that are not public are allowed. These may use http.
        package var allowsPrivateAddresses: Bool

        package init(allowsPrivateAddresses: Bool = false) { self.allowsPrivateAddresses = allowsPrivateAddresses }
    }

    /// The maximum number of addresses of a name that are tried.
    static let maximumAddresses = 3

    private let policy: Policy
    private let clients: WebPushClients
    private let resolver: Resolver

    /// Finds the addresses of a host; `nil` if they cannot be looked up.
    typealias Resolver = @Sendable (_ host: String, _ port: Int) async -> [SocketAddress]?

    /// - Parameters:
    ///   - roots: The trusted certificates; the system's by default.
    ///   - timeout: The timeout of a whole exchange, without the name resolution.
    package init(_ policy: Policy, group: any EventLoopGroup, roots: NIOSSLTrustRoots = .default, timeout: Duration = .seconds(15)) {
        self.init(policy, group: group, roots: roots, timeout: timeout) {
            await HostResolver.shared.addresses(of: $0, port: $1)
        }
    }

    init(_ policy: Policy, group: any EventLoopGroup, roots: NIOSSLTrustRoots, timeout: Duration, resolver: @escaping Resolver) {
        self.policy = policy
        self.clients = WebPushClients { place in
            ProviderClient(
                http1Only: true,
                group: group,
                roots: roots,
                addresses: [place.host: place.address],
                idleTimeout: .seconds(30),
                timeout: timeout
            )
        }
        self.resolver = resolver
    }

    package func shutdown() async { await clients.shutdown() }

    package func post(_ target: DialTarget, headers: HTTPHeaders, body: [UInt8]) async throws(WebPushDialError) -> ProviderClient.Reply {
        guard target.isEncrypted || policy.allowsPrivateAddresses else { throw .forbidden("the push endpoint is not https") }
        for address in try await resolve(target).prefix(Self.maximumAddresses) {
            let place = WebPushClients.Place(host: target.host, address: address)
            do throws(ProviderClient.Failure) {
                return try await clients.use(place) { client throws(ProviderClient.Failure) in
                    try await client.post(target.url, headers: headers, body: body, ignoresLongBody: true)
                }
            } catch {
                switch error {
                case .unreachable: continue
                case .timedOut, .connection: throw .unreachable
                }
            }
        }
        throw .unreachable
    }

    /// - Returns: The addresses of the host, if all of them may be dialled.
    private func resolve(_ target: DialTarget) async throws(WebPushDialError) -> [String] {
        guard let addresses = await resolver(target.host, target.port), !addresses.isEmpty else {
            throw .unreachable
        }
        guard policy.allowsPrivateAddresses || addresses.allSatisfy(Self.isPublic) else {
            throw .forbidden("the push endpoint is not at a public address; the operator can allow that")
        }
        guard target.isEncrypted || !addresses.contains(where: Self.isPublic) else {
            throw .forbidden("the push endpoint is not https")
        }
        return addresses.compactMap(\.ipAddress)
    }

    private static func isPublic(_ address: SocketAddress) -> Bool { IPAddress(address)?.isPublic ?? false }
}
