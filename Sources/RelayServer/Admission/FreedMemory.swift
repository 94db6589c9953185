// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import ServiceLifecycle

#if os(Linux)
import CLinux
#endif

/// Gives memory back to the system when many connections have gone. glibc keeps what was freed between what is still used, for whoever
/// comes next; after a flood that is hundreds of MiB.
struct FreedMemory: Service {
    let connections: OpenConnections

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var ebb = Ebb()
            while true {
                try await Task.sleep(for: .seconds(1))
                guard ebb.isWorthwhile(connections: connections.current) else { continue }
                // Not on a loop: it holds up who allocates from the same arena meanwhile.
                try await NIOThreadPool.singleton.runIfActive { Self.giveBack() }
            }
        }
    }

    private static func giveBack() {
        #if os(Linux)
        clinux_trim_heap()
        #endif
    }

    /// Looks on as connections come and go.
    struct Ebb {
        /// So many have to go first.
        let least = AdmissionPolicy.standard.connectionsBeforeTrim
        private var most = 0
        private var last = 0

        /// - Parameter connections: how many there are; asked regularly.
        /// - Returns: whether many have gone since it last said so, and no more are going.
        mutating func isWorthwhile(connections: Int) -> Bool {
            defer { last = connections }
            most = max(most, connections)
            guard most - connections >= least, last - connections < least / 10 else { return false }
            most = connections
            return true
        }
    }
}
