// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// One start of a node.
package struct NodeID: Hashable, Sendable, CustomStringConvertible {
    package var rawValue: UUID

    package init(_ rawValue: UUID = UUID()) { self.rawValue = rawValue }

    package init?(_ text: String) {
        guard let value = UUID(uuidString: text) else { return nil }
        rawValue = value
    }

    package var description: String { rawValue.uuidString.lowercased() }
}

/// Which nodes live, from beats in the store that all share. Without I/O and clock; times are those of a clock that never goes back.
///
/// A node commits a beat every two seconds. The others see it in transactions of their own beats, so a store that stands still makes nobody
/// dead. A node without a beat of its own for some time stops before the others may find it dead.
package struct NodeMembership: Sendable {
    /// A node as its row says.
    package struct Node: Hashable, Sendable {
        package var id: NodeID
        package var beat: Int64
        /// Whether the node takes accounts now. It does not while it is drained, or its clock is wrong.
        package var takesAccounts: Bool

        package init(_ id: NodeID, beat: Int64, takesAccounts: Bool = true) {
            (self.id, self.beat, self.takesAccounts) = (id, beat, takesAccounts)
        }
    }

    package enum Action: Hashable, Sendable {
        /// Say that a node is dead, unless its beat has grown.
        case setDead(NodeID, beat: Int64)
        /// A node is dead, or takes no accounts any more.
        case left(NodeID)
    }

    private struct Other: Sendable {
        var node: Node
        /// When this beat was seen first, and how often since.
        var since: Duration
        var repeats = 0
    }

    package static let interval = Duration.seconds(2)
    /// A longer time between two beats of this node starts the watch of the others anew.
    private static let longestGap = Duration.seconds(3)
    /// How often, and how long, another node's beat is the same before that node is dead.
    private static let (deadRepeats, deadTime) = (5, Duration.seconds(8))
    /// How often a beat is the same before the node is not named to endpoints any more.
    private static let silentRepeats = 2
    /// How long a node without a beat of its own serves.
    private static let suspension = Duration.seconds(6)
    /// How long a node without a beat of its own keeps its channels.
    private static let closing = Duration.seconds(30)

    private let id: NodeID
    /// When the last beat was sent that is committed.
    private var last: Duration
    private var others: [NodeID: Other] = [:]
    private var takesAccounts = true

    /// - Parameter time: When the transaction was sent that has added the node.
    package init(_ id: NodeID, addedAt time: Duration) { (self.id, last) = (id, time) }

    /// A beat is committed.
    /// - Parameters:
    ///   - time: When it was sent.
    ///   - nodes: All nodes that are not dead, as its transaction has read them.
    package mutating func beaten(at time: Duration, _ nodes: [Node]) -> [Action] {
        let isLate = time - last > Self.longestGap
        last = time
        var actions: [Action] = []
        var seen: [NodeID: Other] = [:]
        for node in nodes {
            guard node.id != id else {
                takesAccounts = node.takesAccounts
                continue
            }
            var other = Other(node: node, since: time)
            if !isLate, let before = others[node.id], before.node.beat == node.beat {
                (other.since, other.repeats) = (before.since, before.repeats + 1)
            }
            seen[node.id] = other
            if other.repeats >= Self.deadRepeats, time - other.since >= Self.deadTime { actions.append(.setDead(node.id, beat: node.beat)) }
        }
        for (other, before) in others where before.node.takesAccounts && seen[other]?.node.takesAccounts != true {
            actions.append(.left(other))
        }
        others = seen
        return actions
    }

    /// The store has another primary, which may not have all beats: the watch of the others starts anew.
    package mutating func storeChanged() { for id in others.keys { others[id]?.repeats = -1 } }

    /// Whether the node admits nobody, because the others may soon find it dead.
    package func isSuspended(at time: Duration) -> Bool { time - last >= Self.suspension }

    /// Whether the node has been suspended so long that its endpoints are better off elsewhere.
    package func isCutOff(at time: Duration) -> Bool { time - last >= Self.closing }

    /// Whether another node has had no beat for some time, and may be dead.
    package func isSilent(_ node: NodeID) -> Bool { others[node].map { $0.repeats >= Self.silentRepeats } ?? false }

    /// The nodes that took accounts at the last beat, in an order that all agree on.
    package var living: [NodeID] {
        let others = others.values.filter { $0.repeats < Self.silentRepeats && $0.node.takesAccounts }.map(\.node.id)
        return (others + (takesAccounts ? [id] : [])).sorted { $0.description < $1.description }
    }
}
