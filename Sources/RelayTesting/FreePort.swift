// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Synchronization

/// Ports for servers that must know their port before they listen, or listen again on it. For tests only.
package enum FreePort {
    package struct NoneLeft: Error {}

    private static let assigned = Mutex<Set<Int>>([])

    /// A free port of 127.0.0.1 below the range that systems use for outgoing connections, from 32768 (Linux) or 49152. So no outgoing
    /// connection takes the port before the server starts, or while it is down. No other server of this process gets it, for the same
    /// reason.
    package static func take() throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 10_000..<32_768)
            guard assigned.withLock({ $0.insert(port).inserted }) else { continue }
            if isFree(UInt16(port)) { return port }
        }
        throw NoneLeft()
    }

    /// Binds a socket and does not listen on it, and starts no process meanwhile: a child that inherits the socket would keep the port.
    private static func isFree(_ port: UInt16) -> Bool {
        ProcessStart.alone {
            #if os(Linux)
            let probe = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            #else
            let probe = socket(AF_INET, SOCK_STREAM, 0)
            #endif
            guard probe >= 0 else { return false }
            defer { close(probe) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            return withUnsafeBytes(of: &address) { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) { bind(probe, $0.baseAddress, socklen_t(bytes.count)) == 0 }
            }
        }
    }
}
