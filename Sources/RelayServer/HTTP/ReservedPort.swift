// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A free port of an address, reserved against other programs that request any free port. The tokens of the relay's issuer contain its
/// address, so the port must be known before the relay listens.
package final class ReservedPort: Sendable {
    package let port: Int
    private let descriptor: CInt

    /// Binds a socket that never listens. On Linux another socket can still listen on the port, because both allow reuse.
    init(of address: ListenAddress) throws {
        let wanted = try SocketAddress.makeAddressResolvingHost(address.host, port: 0)
        #if canImport(Glibc)
        let stream = CInt(SOCK_STREAM.rawValue)
        #else
        let stream = SOCK_STREAM
        #endif
        let descriptor = socket(CInt(wanted.protocol.rawValue), stream, 0)
        guard descriptor >= 0 else { throw ListenError(address: address, errnoCode: errno) }
        do {
            self.port = try Self.bindAny(descriptor, to: wanted, for: address)
        } catch {
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        #if !os(Linux)
        // On other systems the bound socket would block the listener.
        close(descriptor)
        #endif
    }

    deinit {
        #if os(Linux)
        close(descriptor)
        #endif
    }

    private static func bindAny(_ descriptor: CInt, to wanted: SocketAddress, for address: ListenAddress) throws -> Int {
        var yes: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<CInt>.size))
        let bound = wanted.withSockAddr { bind(descriptor, $0, socklen_t($1)) }
        guard bound == 0 else { throw ListenError(address: address, errnoCode: errno) }
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let named = withUnsafeMutableBytes(of: &storage) { bytes in
            getsockname(descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length)
        }
        guard named == 0 else { throw ListenError(address: address, errnoCode: errno) }
        // In both families the port follows the first two bytes, in network order.
        return withUnsafeBytes(of: storage) { Int($0[2]) << 8 | Int($0[3]) }
    }
}

extension RelayConfiguration {
    /// Replaces each port 0 by a free port, and checks every address.
    /// - Returns: the reservations; hold them as long as the relay runs.
    package mutating func takePorts() throws -> [ReservedPort] {
        var taken: [ReservedPort] = []
        for index in listen.indices {
            let address = listen[index]
            do {
                _ = try SocketAddress.makeAddressResolvingHost(address.host, port: address.port)
                guard address.port == 0 else { continue }
                let port = try ReservedPort(of: address)
                listen[index].port = port.port
                taken.append(port)
            } catch {
                throw ListenError(error, address: address, setting: .listen) ?? error
            }
        }
        return taken
    }
}
