// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayServer
import RelayStorage
import Synchronization

/// What a node keeps on its machine for its next start: who it was, so that the next start can say at once that this one is dead, and how far
/// the database's log was stored, so that an older copy of the database is noticed even if it has the same system and timeline.
package final class NodeFile: Sendable {
    struct Content: Codable, Hashable {
        var node: String
        var history: String
        /// Bytes of the log.
        var position: Int64

        init(id: NodeID, history: String, position: Int64) { (node, self.history, self.position) = ("\(id)", history, position) }

        var id: NodeID? { NodeID(node) }
    }

    package static let name = "node.json"
    private static let interval = Duration.seconds(10)

    private let path: String
    private let written = Mutex<(node: String, time: Duration)?>(nil)

    /// - Parameter directory: Of the relay's keys, which one process locks.
    package init(in directory: String) { path = "\(directory)/\(Self.name)" }

    /// What the former start has left; `nil` if there is nothing that can be read.
    func read() -> Content? {
        guard let bytes = try? PrivateFile.contents(of: path) else { return nil }
        return try? JSONDecoder().decode(Content.self, from: Data(bytes))
    }

    /// Without the file, the next start knows less, and is as safe.
    func write(_ content: Content) {
        guard let data = try? JSONEncoder().encode(content) else { return }
        try? PrivateFile.replace(path, with: [UInt8](data))
    }

    /// Writes the content if the last one is some seconds old, or another node's.
    func note(_ content: Content, at time: Duration) {
        let isDue = written.withLock { last in
            if let last, last.node == content.node, time - last.time < Self.interval { return false }
            last = (content.node, time)
            return true
        }
        if isDue { write(content) }
    }
}
#endif
