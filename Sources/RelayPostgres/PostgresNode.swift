// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayServer
import RelayStorage
import Synchronization

/// This process as a node: its row, its beats, and what they say about the others. A thread of its own has a connection for the beats.
final class PostgresNode: Sendable {
    private enum Phase {
        /// The thread of the beats has not begun.
        case idle
        case beating, stopping, ended
    }

    private struct State {
        var id: NodeID
        var membership: NodeMembership
        var isCutOff = false
        var history: History
        /// Whether the database lacks what this node has stored.
        var hasLoss = false
        /// How far the database's clock is ahead of this machine's, in milliseconds.
        var clockOffset: Int64 = 0
        /// Since when the database is complete, as the last beat has read it.
        var began: Int64?
        /// Whether the node takes no more leases.
        var isLeaving = false
        var phase = Phase.idle
    }

    enum Event: Hashable, Sendable {
        /// Another node is dead, or takes no accounts any more.
        case otherLeft
        /// The others have found it dead. It goes on as another node.
        case became(NodeID)
        /// The operator has drained it.
        case drained
        /// The database has another primary. Whether it has all that this node has stored is to be said by `confirm`.
        case primaryChanged
        /// The database is complete only since this time: some of what was stored may be lost.
        case databaseBegan(Int64)
        /// It has had no beat for so long that its endpoints are better off elsewhere.
        case cutOff
    }

    /// Whether the database is the one in which all is known to be stored.
    enum History: Hashable {
        case same(String)
        /// It is another one since this time.
        /// - isConfirmed: whether it has all that this node has stored; `nil` while that is being found out.
        case changed(String, since: Duration, isConfirmed: Bool?)
    }

    let parameters: [(name: String, value: String)]
    private let url: Origin?
    private let version: String
    let now: @Sendable () -> Milliseconds
    private let state: Mutex<State>

    func withHistory<Value>(_ body: (inout History) -> Value) -> Value { state.withLock { body(&$0.history) } }
    @discardableResult
    func withLoss<Value>(_ body: (inout Bool) -> Value) -> Value { state.withLock { body(&$0.hasLoss) } }
    func forgetOthers() { state.withLock { $0.membership.storeChanged() } }
    /// Of `phase`.
    private let changed = NSCondition()

    /// Adds the node's row.
    init(
        _ parameters: [(name: String, value: String)],
        url: Origin?,
        version: String,
        now: @escaping @Sendable () -> Milliseconds
    ) throws {
        (self.parameters, self.url, self.version, self.now) = (parameters, url, version, now)
        let (id, time) = (NodeID(), Self.time)
        let connection = try PostgresConnection(PostgresSettings.parameters(parameters, of: id))
        let history = try Self.add(id, url, version, now, on: connection)
        state = Mutex(State(id: id, membership: NodeMembership(id, addedAt: time), history: history))
    }

    var id: NodeID { state.withLock { $0.id } }
    var isSuspended: Bool { obstacle != nil }

    /// Why the node takes no leases, as text; `nil` if it does.
    var obstacle: String? {
        state.withLock { state in
            if state.isLeaving { return "This node is drained, or stops." }
            if state.membership.isSuspended(at: Self.time) { return "This node has not reached its database for some seconds." }
            if case .changed = state.history {
                return "The database has another primary, and it is being found out whether it has everything."
            }
            guard abs(state.clockOffset) >= Self.largestOffset else { return nil }
            return "The clocks of this machine and of the database are \(abs(state.clockOffset) / 1_000) s apart: let NTP set them."
        }
    }

    /// A node whose clock is farther from the database's takes no leases, and then serves nobody, in milliseconds.
    private static let (largestOffset, impossibleOffset) = (Int64(2_000), Int64(10_000))
    /// This node, and all that live, in an order that all agree on.
    var living: (NodeID, [NodeID]) { state.withLock { ($0.id, $0.membership.living) } }
    func isSilent(_ node: NodeID) -> Bool { state.withLock { $0.membership.isSilent(node) } }

    /// The time of a clock that never goes back, since some moment.
    static var time: Duration { start.duration(to: .now) }
    private static let start = ContinuousClock.now

    /// - Parameters:
    ///   - isAlive: Whether all threads of the store answer. Without that, the node is to be found dead.
    ///   - report: Is called on the thread of the beats.
    func begin(isAlive: @escaping @Sendable () -> Bool, report: @escaping @Sendable (Event) -> Void) {
        let thread = Thread { [self] in
            var connection: PostgresConnection?
            var begun = Date()
            repeat {
                begun = Date()
                if isAlive() { beat(&connection, report) }
                let isCutOff = state.withLock { state in
                    let before = state.isCutOff
                    state.isCutOff = state.membership.isCutOff(at: Self.time) || abs(state.clockOffset) >= Self.impossibleOffset
                    return state.isCutOff && !before
                }
                if isCutOff { report(.cutOff) }
            } while wait(until: begun + 2)
            leave(connection)
            enter(.ended)
        }
        thread.name = "relay.node"
        enter(.beating)
        thread.start()
    }

    private func enter(_ phase: Phase) {
        changed.lock()
        state.withLock { $0.phase = phase }
        changed.broadcast()
        changed.unlock()
    }

    private var phase: Phase { state.withLock { $0.phase } }

    /// Waits until the next beat is due.
    /// - Returns: `false` if the node stops.
    private func wait(until due: Date) -> Bool {
        changed.lock()
        defer { changed.unlock() }
        while phase == .beating, changed.wait(until: due) {}
        return phase == .beating
    }

    var isLeaving: Bool { state.withLock { $0.isLeaving } }

    /// Whether it is known what the database has lost.
    var isSettled: Bool { state.withLock { if case .same = $0.history { !$0.hasLoss } else { false } } }

    /// Takes no more leases.
    func leave() { state.withLock { $0.isLeaving = true } }

    /// Stops the beats. The leases become free, because the node says that it is dead.
    func stop() {
        leave()
        guard phase == .beating else { return }
        enter(.stopping)
        changed.lock()
        defer { changed.unlock() }
        while phase != .ended { changed.wait() }
    }

    // MARK: Statements

    private static func add(
        _ id: NodeID,
        _ url: Origin?,
        _ version: String,
        _ now: () -> Milliseconds,
        on connection: PostgresConnection
    ) throws -> History {
        try connection.begin()
        // The row is locked until the node is there, so that an upgrade that is finished meanwhile waits for it.
        let oldest = try connection.run("SELECT oldest FROM schema FOR SHARE", []).rows.first?.count(0)
        guard let oldest, oldest <= PostgresSchema.version else { throw PostgresSchema.SchemaTooNew() }
        // Their accounts' leases name no live node, with or without the row.
        let started = now().count
        let old = SQLValue.integer(started - 86_400_000)
        try connection.send("DELETE FROM store_writer w USING node n WHERE n.id = w.node AND n.dead < ?", [old], mayWrite: true)
        try connection.send("DELETE FROM node WHERE dead < ?", [old], mayWrite: true)
        let facts = try Facts(connection, now: now)
        let isKnown = facts.known == nil || facts.known == facts.history
        try connection.send("UPDATE relay SET history = ? WHERE history IS NULL", [.text(facts.history)], mayWrite: true)
        try connection.send(
            "INSERT INTO node (id, url, version, schema, started, history) VALUES (?, ?, ?, ?, ?, ?)",
            [
                .text("\(id)"), url.map { .text("\($0)") }, .text(version), .integer(Int64(PostgresSchema.version)), .integer(started),
                isKnown ? .text(facts.history) : nil,
            ],
            mayWrite: true
        )
        try connection.commit()
        return isKnown ? .same(facts.history) : .changed(facts.history, since: time, isConfirmed: nil)
    }

    private func beat(_ connection: inout PostgresConnection?, _ report: (Event) -> Void) {
        let (id, time) = (id, Self.time)
        do {
            let open = try connection ?? PostgresConnection(PostgresSettings.parameters(parameters, of: id))
            connection = open
            try open.begin()
            let own = try open.run(
                "UPDATE node SET beat = beat + 1, takes = ? WHERE id = ? AND dead IS NULL RETURNING draining",
                [.integer(isSuspended ? 0 : 1), .text("\(id)")],
                mayWrite: true
            )
            let rows = try open.run("SELECT CAST(id AS TEXT), beat, takes FROM node WHERE dead IS NULL", []).rows
            let nodes = try rows.compactMap(Self.node)
            let facts = try Facts(open, now: now)
            try open.commit(isAwaited: false)
            guard let row = own.rows.first else { return report(.became(try begin(again: open))) }
            if try row.flag(0) { try drain(on: open, report) }
            take(facts, report)
            let actions = state.withLock { $0.membership.beaten(at: time, nodes) }
            guard try follow(facts, on: open, report) else { return }
            for action in actions {
                switch action {
                case .setDead(let other, let beat): try setDead(other, beat: beat, on: open)
                case .left: report(.otherLeft)
                }
            }
        } catch {
            connection = nil
        }
    }

    /// Lets all leases go, also those whose giving back has failed before.
    private func drain(on connection: PostgresConnection, _ report: (Event) -> Void) throws {
        leave()
        report(.drained)
        try connection.begin()
        try connection.send("UPDATE account_lease SET node = NULL WHERE node = ?", [.text("\(id)")], mayWrite: true)
        try connection.commit(isAwaited: false)
    }

    /// Compares clocks, and notices that the database begins anew.
    private func take(_ facts: Facts, _ report: (Event) -> Void) {
        let began = state.withLock { state -> Int64? in
            state.clockOffset = facts.clockOffset
            defer { state.began = facts.began }
            // The core reads it when it starts.
            return state.began == nil || state.began == facts.began ? nil : facts.began
        }
        if let began { report(.databaseBegan(began)) }
    }

    private static func node(_ row: PostgresRow) throws -> NodeMembership.Node? {
        guard let id = NodeID(try row.text(0)) else { return nil }
        return .init(id, beat: try row.integer(1), takesAccounts: try row.flag(2))
    }

    private func begin(again connection: PostgresConnection) throws -> NodeID {
        try connection.begin()
        let isKnown = try connection.run("SELECT 1 FROM node WHERE id = ?", [.text("\(self.id)")]).rows.first != nil
        try connection.commit()
        // Without the row, this node's start is among what the database has lost.
        if !isKnown { noteLoss() }
        let (id, time) = (NodeID(), Self.time)
        let history = try Self.add(id, url, version, now, on: connection)
        state.withLock { ($0.id, $0.membership, $0.history) = (id, NodeMembership(id, addedAt: time), history) }
        return id
    }

    private func setDead(_ id: NodeID, beat: Int64, on connection: PostgresConnection) throws {
        try connection.begin()
        let set = try connection.run(
            "UPDATE node SET dead = ? WHERE id = ? AND beat = ? AND dead IS NULL",
            [.integer(now().count), .text("\(id)"), .integer(beat)],
            mayWrite: true
        )
        try connection.commit()
        guard set.changes == 1 else { return }
        // A transaction of that node may hold locks, and it will send no more.
        try connection.begin()
        _ = try connection.run(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ?",
            [.text(PostgresSettings.applicationName(of: id))]
        )
        try connection.commit()
    }

    private func leave(_ connection: PostgresConnection?) {
        // A node that cannot say what is lost must not look like one that had nothing to say.
        if case .changed = withHistory({ $0 }) { return }
        guard let open = try? connection ?? PostgresConnection(PostgresSettings.parameters(parameters, of: id)) else { return }
        try? open.begin()
        try? open.send(
            "UPDATE node SET dead = ? WHERE id = ? AND dead IS NULL",
            [.integer(now().count), .text("\(id)")],
            mayWrite: true
        )
        try? open.commit(isAwaited: false)
    }
}
#endif
