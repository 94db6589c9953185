// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// Collects the bound addresses until all are bound.
final class BoundAddresses: Sendable {
    private let expected: Int
    private let urls: [Origin]
    private let ready: @Sendable ([Origin]) -> Void
    private let bound = Mutex((count: 0, origins: [Origin]()))

    init(expected: Int, urls: [Origin], ready: @escaping @Sendable ([Origin]) -> Void) {
        self.expected = expected
        self.urls = urls
        self.ready = ready
    }

    /// - Parameter scheme: the URL scheme for endpoints; `nil` if they do not dial the address.
    func add(_ address: SocketAddress?, scheme: String?) {
        let reachable = scheme.map { scheme in
            Self.hosts(of: address).map { Origin(scheme: scheme, host: $0, port: address?.port ?? 0) }
        }
        let (count, all) = bound.withLock { bound in
            bound.count += 1
            bound.origins += reachable ?? []
            return bound
        }
        // Addresses that other machines can dial come first.
        if count == expected { ready(urls + all.filter { !$0.isLoopback } + all.filter(\.isLoopback)) }
    }

    /// The hosts of a bound address. A wildcard address is reachable at each address of this machine.
    private static func hosts(of address: SocketAddress?) -> [String] {
        guard let host = address?.ipAddress else { return ["localhost"] }
        guard host == "0.0.0.0" || host == "::", let devices = try? System.enumerateDevices() else { return [host] }
        // Two interfaces may have the same address.
        var seen: Set<String> = []
        let hosts = devices.compactMap { $0.address?.ipAddress }.filter { other in
            // Link-local addresses are valid only with the name of their link.
            !other.lowercased().hasPrefix("fe80:") && (host == "::" || !other.contains(":")) && seen.insert(other).inserted
        }
        return hosts.isEmpty ? [host] : hosts
    }
}
