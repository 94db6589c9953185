// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore
package import RelayProtocol
import Synchronization

/// Counts unauthenticated connections per address, so that one address cannot take all sockets. A connection counts until it receives
/// `welcome` or closes.
///
/// A trusted proxy's connection counts for the client of its current request, and for the proxy while it has no request.
package final class UnauthenticatedConnections: Sendable {
    fileprivate enum Owner: Hashable {
        /// `nil`: connections over a Unix socket come from any process that may open it, and count as one address.
        case client(IPNetwork?)
        case proxy(IPAddress)
    }

    let policy = AdmissionPolicy.standard
    private let allowed: Int
    private let proxies: TrustedProxies
    private let foundProxy: @Sendable () -> Void
    private let hasFoundProxy = Atomic(false)
    private let counts = Mutex<[Owner: Int]>([:])
    private let all = Atomic(0)
    /// How requests came.
    package let forwarding = ForwardingCounts()

    /// - Parameter foundProxy: Called once, if a proxy on this machine forwards requests, but no proxy is trusted.
    package init(allowed: Int, proxies: TrustedProxies = TrustedProxies(), foundProxy: @escaping @Sendable () -> Void = {}) {
        self.allowed = allowed
        self.proxies = proxies
        self.foundProxy = foundProxy
    }

    /// Admits a connection; `nil` if its address has reached its limit.
    package func admit(_ address: SocketAddress?) -> Ticket? {
        let proxy = proxies.proxy(at: address)
        let owner = proxy.map { Owner.proxy($0) } ?? .client(IPAddress(address)?.network)
        guard counts.withLock({ add(owner, to: &$0) }) else { return nil }
        all.wrappingAdd(1, ordering: .relaxed)
        return Ticket(owner: owner, peer: address, proxy: proxy, counter: self)
    }

    package var total: Int { all.load(ordering: .relaxed) }
    /// Whether each connection gets a smaller share.
    package var areMany: Bool { total > policy.manyUnauthenticated }

    /// Without trusted proxies, all clients of a proxy count as one.
    private func noticeProxy(at peer: SocketAddress?, forwardedFor: () -> [String]) {
        forwarding.note(untrusted: IPAddress(peer), forwardedFor)
        guard proxies.networks.isEmpty, !hasFoundProxy.load(ordering: .relaxed), IPAddress(peer)?.isLoopback == true,
            !forwardedFor().isEmpty,
            !hasFoundProxy.exchange(true, ordering: .relaxed)
        else { return }
        foundProxy()
    }

    private func add(_ owner: Owner, to counts: inout [Owner: Int]) -> Bool {
        let count = counts[owner, default: 0]
        let most = if case .proxy = owner { allowed * policy.proxyFactor } else { allowed }
        guard count < most else { return false }
        counts[owner] = count + 1
        return true
    }

    private func remove(_ owner: Owner, from counts: inout [Owner: Int]) {
        guard let count = counts[owner] else { return }
        counts[owner] = count > 1 ? count - 1 : nil
    }

    /// The place of one connection in the count. It is released once, even if several callers release it.
    package final class Ticket: Sendable {
        private let peer: SocketAddress?
        private let proxy: IPAddress?
        private let counter: UnauthenticatedConnections
        /// `nil` after the release.
        private let owner: Mutex<Owner?>
        private let source: Mutex<IPAddress?>

        fileprivate init(owner: Owner, peer: SocketAddress?, proxy: IPAddress?, counter: UnauthenticatedConnections) {
            self.peer = peer
            self.proxy = proxy
            self.counter = counter
            self.owner = Mutex(owner)
            self.source = Mutex(IPAddress(peer))
        }

        /// The address of the client: that of the connection, or behind a trusted proxy that of its last request. `nil` for a Unix
        /// socket.
        package var client: IPAddress? { source.withLock { $0 } }

        /// A request has begun; a proxy's connection now counts for its client.
        /// - Parameter forwardedFor: the fields of that name.
        /// - Returns: whether the client may have one more connection.
        package func requestBegins(forwardedFor: @autoclosure () -> [String]) -> Bool {
            guard proxy != nil else {
                counter.noticeProxy(at: peer, forwardedFor: forwardedFor)
                return true
            }
            let fields = forwardedFor()
            counter.forwarding.note(trusted: fields)
            let client = counter.proxies.client(of: peer, forwardedFor: fields)
            source.withLock { $0 = client }
            return move(to: .client(client?.network))
        }

        /// The request was answered; the next request of a proxy's connection may come from another client.
        package func requestEnds() {
            guard let proxy else { return }
            // If the proxy has no room left, the connection still counts for the client: every open connection is counted.
            _ = move(to: .proxy(proxy))
        }

        private func move(to new: Owner) -> Bool {
            owner.withLock { owner in
                guard let old = owner, old != new else { return true }
                let isMoved = counter.counts.withLock { counts in
                    guard counter.add(new, to: &counts) else { return false }
                    counter.remove(old, from: &counts)
                    return true
                }
                if isMoved { owner = new }
                return isMoved
            }
        }

        package func release() {
            let owner = owner.withLock { owner in
                defer { owner = nil }
                return owner
            }
            guard let owner else { return }
            counter.all.wrappingSubtract(1, ordering: .relaxed)
            counter.counts.withLock { counter.remove(owner, from: &$0) }
        }
    }
}
