// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import ServiceLifecycle

#if os(Linux)
import CLinux
#endif

/// Returns freed memory to the system after many connections have closed. glibc keeps freed memory that lies between used blocks; after a
/// flood that is hundreds of MiB.
struct FreedMemory: Service {
    let connections: OpenConnections

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            for await _ in connections.crowds {
                var ebb = Ebb()
                repeat {
                    try await Task.sleep(for: .seconds(1))
                    guard ebb.isWorthwhile(connections: connections.current) else { continue }
                    // Not on an event loop: it blocks other threads that allocate from the same arena.
                    try await NIOThreadPool.singleton.runIfActive { Self.trim() }
                } while ebb.mayBecomeWorthwhile
            }
        }
    }

    private static func trim() {
        #if os(Linux)
        clinux_trim_heap()
        #endif
    }

    /// Detects that many connections have closed.
    struct Ebb {
        /// How many must close first.
        let least = AdmissionPolicy.standard.connectionsBeforeTrim
        private var most = 0
        private var last = 0

        /// Whether that many were open since the last `true`.
        var mayBecomeWorthwhile: Bool { most >= least }

        /// - Parameter connections: the current number; passed at regular intervals.
        /// - Returns: whether many have closed since the last `true`, and the number no longer falls.
        mutating func isWorthwhile(connections: Int) -> Bool {
            defer { last = connections }
            most = max(most, connections)
            guard most - connections >= least, last - connections < least / 10 else { return false }
            most = connections
            return true
        }
    }
}
