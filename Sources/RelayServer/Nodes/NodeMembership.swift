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
/// A node commits a beat every second. The others see it in transactions of their own beats, so a store that stands still makes nobody
/// dead. A node without a beat of its own for some time stops before the others may find it dead.
package struct NodeMembership: Sendable {
    /// A node as its row says.
    package struct Node: Hashable, Sendable {
        package var id: NodeID
        package var beat: Int64
        /// Whether the node takes accounts now. It does not while it is drained, or its clock is wrong.
        package var takesAccounts: Bool
        /// How many accounts it serves; `nil` if it does not say so.
        package var accounts: Int?

        package init(_ id: NodeID, beat: Int64, takesAccounts: Bool = true, accounts: Int? = nil) {
            (self.id, self.beat, self.takesAccounts, self.accounts) = (id, beat, takesAccounts, accounts)
        }
    }

    package enum Action: Hashable, Sendable {
        /// Say that a node is dead, unless its beat has grown.
        case setDead(NodeID, beat: Int64)
        /// A node is dead, or takes no accounts any more.
        case left(NodeID)
        /// Give so many accounts back, because the others serve fewer.
        case giveBack(Int)
    }

    private struct Other: Sendable {
        var node: Node
        /// When this beat was seen first, and how often since.
        var since: Duration
        var repeats = 0
    }

    package static let interval = Duration.seconds(1)
    /// A longer time between two beats of this node starts the watch of the others anew.
    private static let longestGap = Duration.seconds(3)
    /// How often, and how long, another node's beat is the same before that node is dead.
    private static let (deadRepeats, deadTime) = (5, Duration.seconds(8))
    /// How often a beat is the same before the node is not named to endpoints any more.
    private static let silentRepeats = 3
    /// A node that serves more than this part of the mean, and so many more, gives accounts back: in each second this part of what it has
    /// too many, and at least so many.
    private static let (largestShare, leastExcess, givenPart, givenLeast) = (1.25, 16, 64, 4)
    /// How long a node without a beat of its own serves.
    private static let suspension = Duration.seconds(6)
    /// How long a node without a beat of its own waits until it looks whether another one serves.
    private static let searching = deadTime
    /// How long a node without a beat of its own keeps its channels.
    private static let closing = Duration.seconds(30)
    /// How long the rows of a dead node are there at least. They are deleted after a day, by clocks that may differ.
    private static let memory = Duration.seconds(20 * 3_600)

    private let id: NodeID
    /// When the last beat was sent that is committed.
    private var last: Duration
    private var others: [NodeID: Other] = [:]
    private var own: Node

    /// - Parameter time: When the transaction was sent that has added the node.
    package init(_ id: NodeID, addedAt time: Duration) {
        (self.id, last) = (id, time)
        own = Node(id, beat: 0)
    }

    /// A beat is committed.
    /// - Parameters:
    ///   - time: When it was sent.
    ///   - answered: When its answer was there; `nil` if at once.
    ///   - nodes: All nodes that are not dead, as its transaction has read them.
    package mutating func beaten(at time: Duration, answered: Duration? = nil, _ nodes: [Node]) -> [Action] {
        let isLate = time - last > Self.longestGap
        last = time
        var actions: [Action] = []
        var seen: [NodeID: Other] = [:]
        for node in nodes {
            guard node.id != id else {
                own = node
                continue
            }
            // A beat that this one has read may be younger than the sending of this one.
            var other = Other(node: node, since: answered ?? time)
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
        let excess = excess
        if excess > 0 { actions.append(.giveBack(min(excess, max(Self.givenLeast, excess / Self.givenPart)))) }
        return actions
    }

    /// How many accounts the node serves that others should; 0 if somebody does not say how many it serves.
    private var excess: Int {
        let nodes = others.values.filter { $0.repeats < Self.silentRepeats && $0.node.takesAccounts }.map(\.node) + [own]
        let counts = nodes.compactMap(\.accounts)
        guard own.takesAccounts, counts.count == nodes.count, let served = own.accounts else { return 0 }
        let mean = Double(counts.reduce(0, +)) / Double(counts.count)
        let excess = served - Int(mean.rounded(.up))
        return excess >= Self.leastExcess && Double(served) > mean * Self.largestShare ? excess : 0
    }

    /// The store has another primary, which may not have all beats: the watch of the others starts anew.
    package mutating func storeChanged() { for id in others.keys { others[id]?.repeats = -1 } }

    /// Whether the node has been without a beat for so long that the others may have deleted its rows.
    package func isForgotten(at time: Duration) -> Bool { time - last >= Self.memory }

    /// Whether the node admits nobody, because the others may soon find it dead.
    package func isSuspended(at time: Duration) -> Bool { time - last >= Self.suspension }

    /// Whether the node has been suspended so long that another one may serve its accounts.
    package func isReplaceable(at time: Duration) -> Bool { time - last >= Self.searching }

    /// Whether the node has been suspended so long that its endpoints are better off elsewhere.
    package func isCutOff(at time: Duration) -> Bool { time - last >= Self.closing }

    /// When a node that has had no beat for some time may be found dead; `nil` if it has beats.
    package func death(of node: NodeID) -> Duration? {
        guard let other = others[node], other.repeats >= Self.silentRepeats else { return nil }
        return other.since + Self.deadTime + Self.interval
    }

    /// The nodes that took accounts at the last beat, in an order that all agree on.
    package var living: [NodeID] {
        let others = others.values.filter { $0.repeats < Self.silentRepeats && $0.node.takesAccounts }.map(\.node.id)
        return (others + (own.takesAccounts ? [id] : [])).sorted { $0.description < $1.description }
    }
}
