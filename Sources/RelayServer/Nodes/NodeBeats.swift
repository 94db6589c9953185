// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a node does about what its beats read: whether it serves, whether the database has everything, and what the others do. Without I/O
/// and clock; times are those of a clock that never goes back.
///
/// The database's *history* names its system and timeline. A standby that becomes the primary, and a restored database, have another one.
/// Then each living node of the former history looks whether what it has stored is there. If something is missing, if there is no such
/// node, or if one does not answer in time, the database counts as complete only from now on, as after a backup was restored. The relay then
/// states no outcome that it cannot know.
package struct NodeBeats: Sendable {
    /// The node's row.
    package enum Row: Hashable, Sendable {
        case alive(isDraining: Bool)
        case dead, missing
    }

    /// What the committed transaction of a beat has read.
    package struct Reading: Hashable, Sendable {
        package var row: Row
        package var history: String
        /// The history in which all is known to be stored; `nil` in a new database.
        package var known: String?
        /// Since when the database is complete.
        package var began: Int64?
        /// How many living nodes were in a history in which all was known to be stored, and so can confirm another one.
        package var witnesses: Int
        /// How far the database's clock is ahead of this machine's, in milliseconds.
        package var clockOffset: Int64
        /// All nodes that are not dead.
        package var nodes: [NodeMembership.Node]

        package init(
            row: Row,
            history: String,
            known: String?,
            began: Int64?,
            witnesses: Int,
            clockOffset: Int64 = 0,
            nodes: [NodeMembership.Node] = []
        ) {
            (self.row, self.history, self.known, self.began) = (row, history, known, began)
            (self.witnesses, self.clockOffset, self.nodes) = (witnesses, clockOffset, nodes)
        }

        /// Whether all is known to be stored in the database.
        package var isKnown: Bool { known == nil || known == history }
    }

    package enum Action: Hashable, Sendable {
        /// Go on as another node, then call `joined`.
        case becomeAnother
        /// The operator has drained the node.
        case drain
        /// Let all leases go, also those whose giving back has failed before.
        case freeLeases
        /// Tell that the database is complete only since this time, then call `told(began:)`.
        case tellBegan(Int64)
        /// Look whether the database of this history has all that this node has stored, then call `looked`.
        case look(String)
        /// Store that the database has all that this node has stored.
        case confirm(history: String, known: String?)
        /// Let the database begin anew, unless another node has done so since `began`; then call `begunAnew`.
        case beginAnew(history: String, began: Int64?)
        /// Look which nodes are ready at the URL that all have in common, then call `found`.
        case lookForOthers
        /// The node is of no use to its endpoints, which are better off elsewhere.
        case cutOff(CutOff)
        /// The node takes no accounts from now on, for this reason; `nil` if it takes some again.
        case suspended(String?)
        case other(NodeMembership.Action)

        /// Whether it writes to the database. The next beat wants it again if it fails.
        fileprivate var isWritten: Bool {
            switch self {
            case .becomeAnother, .freeLeases, .confirm, .beginAnew, .other(.setDead): true
            case .drain, .tellBegan, .look, .lookForOthers, .cutOff, .suspended, .other(.left), .other(.giveBack): false
            }
        }
    }

    private enum History: Hashable, Sendable {
        /// All is known to be stored in this one.
        case same(String)
        /// The database has this one since this time.
        case another(String, since: Duration, isConfirmed: Bool)
        /// The database lacks something that this node has stored.
        case lacking(String)

        var name: String {
            switch self {
            case .same(let name), .another(let name, _, _), .lacking(let name): name
            }
        }
    }

    /// What a node that does not reach its database knows of another one that serves.
    private enum Successor: Hashable, Sendable {
        case unknown
        case sought
        /// None was ready. It is sought again at this time.
        case missing(until: Duration)
        /// Another node was ready at this time. The database may just have come back for all, so this node tries once more.
        case ready(since: Duration)
        /// Another node was ready, and after that this one still did not reach the database.
        case serves
    }

    /// How long nodes that were alive may take to find what they have stored.
    private static let confirmationTime = Duration.seconds(30)
    /// How long until the next beat after one that failed, or while it is not known what the database has lost.
    private static let shortInterval = Duration.milliseconds(200)
    /// How long until a successor is sought again.
    private static let searchInterval = Duration.seconds(2)
    /// A node whose clock is farther from the database's takes no leases, and then serves nobody, in milliseconds.
    private static let (largestOffset, impossibleOffset) = (Int64(2_000), Int64(10_000))

    package private(set) var id: NodeID
    private var membership: NodeMembership
    private var history: History
    /// Since when the database is complete, as the core knows.
    package private(set) var began: Int64?
    private var clockOffset: Int64 = 0
    private var isFailing = false
    private var successor = Successor.unknown
    private var isCutOff = false
    /// Whether it was told that the node takes no accounts.
    private var isSuspended = false
    /// Whether the node takes no more leases.
    package private(set) var isLeaving = false

    /// - Parameters:
    ///   - time: When the transaction was sent that has added the node's row.
    ///   - reading: What that transaction has read.
    package init(_ id: NodeID, at time: Duration, _ reading: Reading) {
        (self.id, membership, began) = (id, NodeMembership(id, addedAt: time), reading.began)
        clockOffset = reading.clockOffset
        history = Self.history(reading, at: time)
    }

    private static func history(_ reading: Reading, at time: Duration) -> History {
        // A node that starts later has nothing to confirm.
        reading.isKnown ? .same(reading.history) : .another(reading.history, since: time, isConfirmed: false)
    }

    /// The node goes on as another one.
    package mutating func joined(as id: NodeID, at time: Duration, _ reading: Reading) {
        (self.id, membership) = (id, NodeMembership(id, addedAt: time))
        clockOffset = reading.clockOffset
        if case .lacking = history { return }
        history = Self.history(reading, at: time)
    }

    // MARK: Beats

    /// A beat is committed.
    /// - Parameters:
    ///   - time: When it was sent.
    ///   - answered: When its answer was there; `nil` if at once.
    /// - Returns: What is to be done. What may fail comes last.
    package mutating func beaten(at time: Duration, answered: Duration? = nil, _ reading: Reading) -> [Action] {
        isFailing = false
        successor = .unknown
        guard case .alive(let isDraining) = reading.row else {
            // Without the row, this node's start is among what the database has lost, unless it has begun anew since.
            if reading.row == .missing, !membership.isForgotten(at: time), !hasBegunAnew(reading) { history = .lacking(reading.history) }
            return [.becomeAnother]
        }
        clockOffset = reading.clockOffset
        var actions: [Action] = []
        if isDraining {
            isLeaving = true
            actions.append(.drain)
        }
        if isDraining || hasImpossibleClock { actions.append(.freeLeases) }
        // The core reads the first one itself, when it makes it in a new database.
        if let began, let now = reading.began, began != now { actions.append(.tellBegan(now)) } else { began = reading.began }
        // Another primary may not have all beats.
        if reading.known != reading.history { membership.storeChanged() }
        actions += membership.beaten(at: time, answered: answered, reading.nodes).map { .other($0) }
        actions += follow(reading, at: time)
        return actions.filter { !$0.isWritten } + actions.filter(\.isWritten)
    }

    /// Whether the database counts as complete only since a time that the core does not know yet.
    private func hasBegunAnew(_ reading: Reading) -> Bool {
        guard reading.isKnown, let began, let now = reading.began else { return false }
        return now > began
    }

    private mutating func follow(_ reading: Reading, at time: Duration) -> [Action] {
        let anew = Action.beginAnew(history: reading.history, began: reading.began)
        if case .lacking = history { return [anew] }
        guard reading.known != reading.history else {
            history = .same(reading.history)
            return []
        }
        guard case .another(reading.history, let since, let isConfirmed) = history else {
            history = .another(reading.history, since: time, isConfirmed: false)
            return [.look(reading.history)]
        }
        if reading.witnesses == 0 || time - since >= Self.confirmationTime { return [anew] }
        return isConfirmed ? [.confirm(history: reading.history, known: reading.known)] : []
    }

    /// A beat is not known to be committed, or could not be sent.
    /// - Parameter time: When it began.
    package mutating func failed(at time: Duration) {
        isFailing = true
        if case .ready(let since) = successor, time >= since { successor = .serves }
    }

    /// Some time has passed.
    package mutating func passed(at time: Duration) -> [Action] {
        var actions: [Action] = []
        let obstacle = isLeaving ? nil : self.obstacle(at: time)
        // The number of seconds in it may change with each beat.
        if (obstacle != nil) != isSuspended {
            isSuspended.toggle()
            actions.append(.suspended(obstacle))
        }
        let wasCutOff = isCutOff
        let isAlone = successor == .serves
        isCutOff = isAlone || membership.isCutOff(at: time) || hasImpossibleClock
        if isCutOff, !wasCutOff { actions.append(.cutOff(isAlone ? .alone : .forLong)) }
        if seeksSuccessor(at: time) {
            successor = .sought
            actions.append(.lookForOthers)
        }
        return actions
    }

    private func seeksSuccessor(at time: Duration) -> Bool {
        guard membership.isReplaceable(at: time), !isCutOff, !isLeaving else { return false }
        return switch successor {
        case .unknown: true
        case .missing(let until): time >= until
        case .sought, .ready, .serves: false
        }
    }

    private var hasImpossibleClock: Bool { abs(clockOffset) >= Self.impossibleOffset }

    /// How long after the begin of a beat the next one begins.
    package var interval: Duration {
        if case .same = history, !isFailing { NodeMembership.interval } else { Self.shortInterval }
    }

    // MARK: Results

    /// These nodes were ready at the common URL. One may be new since this node's last beat.
    package mutating func found(_ nodes: Set<NodeID>, at time: Duration) {
        guard successor == .sought else { return }
        successor = nodes.contains { $0 != id } ? .ready(since: time) : .missing(until: time + Self.searchInterval)
    }

    package mutating func told(began: Int64) { self.began = began }

    /// All threads of the store have looked, at the database of this history. Meanwhile it may have another one.
    package mutating func looked(in name: String, isComplete: Bool) {
        guard case .another(name, let since, _) = history else { return }
        history = isComplete ? .another(name, since: since, isConfirmed: true) : .lacking(name)
    }

    /// The database does not have what this node has stored.
    package mutating func lacks(at time: Duration) { if !membership.isForgotten(at: time) { history = .lacking(history.name) } }

    /// The next beat reads since when the database is complete.
    package mutating func begunAnew(at time: Duration) { history = .another(history.name, since: time, isConfirmed: false) }

    /// Takes no more leases.
    package mutating func leave() { isLeaving = true }

    // MARK: Questions

    /// Whether a connection to a database with this history may be used.
    package func mayUse(_ name: String) -> Bool {
        switch history {
        case .same(let known): known == name
        case .another(let another, _, let isConfirmed): another == name && isConfirmed
        case .lacking: false
        }
    }

    /// Whether it is known what the database has lost.
    package var isSettled: Bool { if case .same = history { true } else { false } }

    /// Whether no other node can have found this one dead yet.
    package func hasYoungBeat(at time: Duration) -> Bool { !membership.isSuspended(at: time) }

    /// Whether the node serves the accounts whose leases it has.
    package func serves(at time: Duration) -> Bool { !isLeaving && !membership.isSuspended(at: time) && isSettled && !hasImpossibleClock }

    /// Why the node takes no leases, as text; `nil` if it does.
    package func obstacle(at time: Duration) -> String? {
        if isLeaving { return "This node is drained, or stops." }
        if membership.isSuspended(at: time) { return "This node has not reached its database for some seconds." }
        guard isSettled else {
            return "The database has another primary, or was restored, and it is being found out whether it has everything."
        }
        guard abs(clockOffset) >= Self.largestOffset else { return nil }
        return "The clocks of this machine and of the database are \(abs(clockOffset) / 1_000) s apart: let NTP set them."
    }

    /// The nodes that took accounts at the last beat, in an order that all agree on.
    package var living: [NodeID] { membership.living }

    /// How long until an endpoint tries again that finds nobody to serve its account, in milliseconds.
    /// - Parameter owner: The node that has the account's lease and may be dead, if there is one.
    package func pause(for owner: NodeID? = nil, at time: Duration, random: inout some RandomNumberGenerator) -> Int64 {
        if let owner, let death = membership.death(of: owner) {
            let rest = max(.zero, death - time)
            return Int64(rest / .milliseconds(1)) + Int64.random(in: 0...1_000, using: &random)
        }
        // Others serve it at once if this node leaves, and soon if something is being found out. A database may be away for longer.
        return Int64.random(in: isCutOff ? 2_000...12_000 : 100...1_500, using: &random)
    }

    /// Whether another node has had no beat for some time, and may be dead.
    package func isSilent(_ node: NodeID) -> Bool { membership.death(of: node) != nil }
}
