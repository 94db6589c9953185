// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import Synchronization

/// Ports for servers that must know their port before they listen, or listen again on it. For tests only.
package enum FreePort {
    package struct NoneLeft: Error {}

    private static let assigned = Mutex<Set<Int>>([])

    /// A free port of 127.0.0.1 below the range that systems use for outgoing connections, from 32768 (Linux) or 49152. So no outgoing
    /// connection takes the port before the server starts, or while it is down. No other server of this process gets it, for the same
    /// reason.
    package static func take() async throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 10_000..<32_768)
            guard assigned.withLock({ $0.insert(port).inserted }) else { continue }
            let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let probe = try? await bootstrap.bind(host: "127.0.0.1", port: port).get() else { continue }
            try await probe.close()
            return port
        }
        throw NoneLeft()
    }
}
