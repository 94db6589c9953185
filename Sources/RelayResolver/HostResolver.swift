// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import NIOCore
import Synchronization

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Looks up all addresses of a name with the system's resolver.
///
/// The resolver blocks, and users choose the names. Each lookup has a thread of its own, so that slow lookups of one user do not delay those
/// of another. Who asks bounds the lookups of each user, which also bounds the threads.
package final class HostResolver: Sendable {
    package static let shared = HostResolver()

    private let maximumLookups: Int
    private let resolve: @Sendable (_ host: String, _ port: Int) -> [SocketAddress]
    private let lookups = Mutex(0)

    /// - Parameters:
    ///   - maximumLookups: The bound over all users. A lookup beyond it fails, and its user tries again later.
    ///   - resolve: Finds the addresses of a host. It may block.
    package init(
        maximumLookups: Int = 512,
        _ resolve: @escaping @Sendable (_ host: String, _ port: Int) -> [SocketAddress] = HostResolver.resolve
    ) {
        self.maximumLookups = maximumLookups
        self.resolve = resolve
    }

    /// - Returns: The addresses in order of preference (RFC 6724); `nil` if there are too many lookups now.
    package func addresses(of host: String, port: Int) async -> [SocketAddress]? {
        let begins = lookups.withLock { count in
            guard count < maximumLookups else { return false }
            count += 1
            return true
        }
        guard begins else { return nil }
        defer { lookups.withLock { $0 -= 1 } }
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread { [resolve] in continuation.resume(returning: resolve(host, port)) }
        }
    }

    package static func resolve(_ host: String, _ port: Int) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        #if canImport(Glibc)
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
        hints.ai_socktype = SOCK_STREAM
        #endif
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, "\(port)", &hints, &first) == 0, let list = first else { return [] }
        defer { freeaddrinfo(list) }
        return sequence(first: list, next: { $0.pointee.ai_next }).compactMap { entry in
            guard let address = entry.pointee.ai_addr else { return nil }
            let bytes = UnsafeRawBufferPointer(start: address, count: Int(entry.pointee.ai_addrlen))
            return switch entry.pointee.ai_family {
            case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size: SocketAddress(bytes.loadUnaligned(as: sockaddr_in.self))
            case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size: SocketAddress(bytes.loadUnaligned(as: sockaddr_in6.self))
            default: nil
            }
        }
    }
}
