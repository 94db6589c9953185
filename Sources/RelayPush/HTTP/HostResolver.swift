// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Asks the system's resolver for all addresses of a name.
enum HostResolver {
    /// The resolver blocks, and users choose the names: slow ones wait for each other here, and delay nothing else.
    private static let pool = {
        let pool = NIOThreadPool(numberOfThreads: 4)
        pool.start()
        return pool
    }()

    /// - Returns: In the order of preference (RFC 6724); `nil` if the name has none.
    static func addresses(of host: String, port: Int) async -> [SocketAddress]? {
        try? await pool.runIfActive { resolve(host, port) }
    }

    private static func resolve(_ host: String, _ port: Int) -> [SocketAddress] {
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
