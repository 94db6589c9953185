// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayServer
import RelayStorage
import Synchronization

/// This process as a node: its row, and its beats. What follows from them is decided by `NodeBeats`. A thread of its own has a connection for
/// the beats.
final class PostgresNode: Sendable {
    enum Event: Hashable, Sendable {
        /// Another node is dead, or takes no accounts any more.
        case otherLeft
        /// The others have found it dead. It goes on as another node.
        case became(NodeID)
        /// The operator has drained it.
        case drained
        /// The database has another primary. Whether it has all that this node has stored is to be said by `looked`.
        case primaryChanged(history: String)
        /// The database is complete only since this time: some of what was stored may be lost.
        case databaseBegan(Int64)
        /// It is of no use to its endpoints, which are better off elsewhere.
        case cutOff(CutOff)
        /// Why it takes no accounts from now on; `nil` if it takes some again.
        case suspended(String?)
        /// Others serve fewer accounts, and should serve so many more.
        case hasTooMany(Int)
    }

    let parameters: [(name: String, value: String)]
    let url: Origin?
    let version: String
    let now: @Sendable () -> Milliseconds
    private let file: NodeFile?
    private let common: CommonURL?
    /// Looks for other nodes.
    private let search = Mutex<Task<Void, Never>?>(nil)
    private let beats: Mutex<NodeBeats>
    private let isBeating = Atomic(false)
    /// Signalled when the thread of the beats is to end, and when it has.
    private let (stopping, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))

    /// Adds the node's row.
    /// - Parameters:
    ///   - file: What the node's former start on this machine has left; `nil` if nothing is kept.
    ///   - common: Where it looks for others when it does not reach the database; `nil` if it does not.
    init(
        _ parameters: [(name: String, value: String)],
        url: Origin?,
        version: String,
        file: NodeFile? = nil,
        common: CommonURL? = nil,
        now: @escaping @Sendable () -> Milliseconds
    ) throws {
        (self.parameters, self.url, self.version, self.now) = (parameters, url, version, now)
        (self.file, self.common) = (file, common)
        let (id, time) = (NodeID(), Self.time)
        let former = file?.read().flatMap { $0.id == nil ? nil : $0 }
        let connection = try PostgresConnection(PostgresSettings.parameters(parameters, of: id))
        let added = try Self.add(Row(id: id, url: url, version: version), after: former, now, on: connection)
        var beats = NodeBeats(id, at: time, added.reading)
        if added.lacksSomething { beats.lacks(at: time) }
        self.beats = Mutex(beats)
        note(added.reading, position: added.position, at: time)
        if let former = former?.id { try? Self.endConnections(of: former, on: connection) }
    }

    func withBeats<Value>(_ body: (inout NodeBeats) -> Value) -> Value { beats.withLock { body(&$0) } }

    var id: NodeID { withBeats { $0.id } }
    var isSuspended: Bool { obstacle != nil }
    /// Whether the node serves the accounts whose leases it has.
    var serves: Bool { withBeats { $0.serves(at: Self.time) } }
    var obstacle: String? { withBeats { $0.obstacle(at: Self.time) } }
    var hasYoungBeat: Bool { withBeats { $0.hasYoungBeat(at: Self.time) } }
    /// This node, and all that live, in an order that all agree on.
    var living: (NodeID, [NodeID]) { withBeats { ($0.id, $0.living) } }
    func isSilent(_ node: NodeID) -> Bool { withBeats { $0.isSilent(node) } }
    var began: Int64? { withBeats { $0.began } }
    var isSettled: Bool { withBeats { $0.isSettled } }
    func mayUse(_ history: String) -> Bool { withBeats { $0.mayUse(history) } }

    func pause(for owner: NodeID?) -> Milliseconds {
        var random = SystemRandomNumberGenerator()
        return Milliseconds(clamping: withBeats { $0.pause(for: owner, at: Self.time, random: &random) })
    }

    /// The time of a clock that never goes back, since some moment.
    static var time: Duration { start.duration(to: .now) }
    private static let start = ContinuousClock.now

    // MARK: The thread

    /// - Parameters:
    ///   - accounts: How many accounts the node serves.
    ///   - isAlive: Whether all threads of the store answer. Without that, the node is to be found dead.
    ///   - report: Is called on the thread of the beats.
    func begin(
        accounts: @escaping @Sendable () -> Int,
        isAlive: @escaping @Sendable () -> Bool,
        report: @escaping @Sendable (Event) -> Void
    ) {
        let thread = Thread { [self] in
            var connection: PostgresConnection?
            // Not by the time of day, which may be set.
            var begun = DispatchTime.now()
            repeat {
                begun = .now()
                if isAlive() {
                    beat(&connection, accounts: accounts(), report)
                } else {
                    withBeats { $0.failed(at: Self.time) }
                }
                for action in withBeats({ $0.passed(at: Self.time) }) { try? perform(action, on: nil, report) }
            } while stopping.wait(timeout: begun + withBeats { $0.interval } / .seconds(1)) == .timedOut
            search.withLock { $0 }?.cancel()
            leave(connection)
            ended.signal()
        }
        thread.name = "relay.node"
        isBeating.store(true, ordering: .relaxed)
        thread.start()
    }

    /// Takes no more leases.
    func leave() { withBeats { $0.leave() } }

    /// Stops the beats. The leases become free, because the node says that it is dead.
    func stop() {
        leave()
        guard isBeating.exchange(false, ordering: .relaxed) else { return }
        stopping.signal()
        ended.wait()
    }

    // MARK: A beat

    private func beat(_ connection: inout PostgresConnection?, accounts: Int, _ report: (Event) -> Void) {
        let (id, time) = (id, Self.time)
        do {
            let open = try connection ?? PostgresConnection(PostgresSettings.parameters(parameters, of: id))
            connection = open
            let (reading, position) = try Self.beat(id, takes: !isSuspended, accounts: accounts, now, on: open)
            let answered = Self.time
            for action in withBeats({ $0.beaten(at: time, answered: answered, reading) }) { try perform(action, on: open, report) }
            note(reading, position: position, at: time)
        } catch {
            connection = nil
            withBeats { $0.failed(at: time) }
        }
    }

    /// Until it is known what the database has lost, the file says what the former start has left: this one may end before it has said so.
    private func note(_ reading: NodeBeats.Reading, position: Int64, at time: Duration) {
        if isSettled { file?.note(.init(id: id, history: reading.history, position: position), at: time) }
    }

    /// - Parameter connection: `nil` outside a beat.
    private func perform(_ action: NodeBeats.Action, on connection: PostgresConnection?, _ report: (Event) -> Void) throws {
        switch action {
        case .cutOff(let reason): report(.cutOff(reason))
        case .lookForOthers: lookForOthers()
        case .look(let history): report(.primaryChanged(history: history))
        case .other(.left): report(.otherLeft)
        case .other(.giveBack(let count)): report(.hasTooMany(count))
        case .tellBegan(let time):
            report(.databaseBegan(time))
            withBeats { $0.told(began: time) }
        case .drain: report(.drained)
        case .freeLeases: try connection.map { try Self.freeLeases(of: id, on: $0) }
        case .suspended(let reason): report(.suspended(reason))
        case .becomeAnother: if let connection { report(.became(try becomeAnother(on: connection))) }
        case .confirm(let history, let known): try connection.map { try Self.confirm(history, known: known, by: id, on: $0) }
        case .beginAnew(let history, let began):
            guard let connection else { return }
            let time = Self.time
            try Self.beginAnew(history, since: began, at: now(), on: connection)
            withBeats { $0.begunAnew(at: time) }
        case .other(.setDead(let other, let beat)): try connection.map { try Self.setDead(other, beat: beat, on: $0) }
        }
    }

    private func lookForOthers() {
        let task = Task { [self] in  // Owner: `search`, until the thread of the beats ends.
            let nodes = await common?.readyNodes() ?? []
            withBeats { $0.found(nodes, at: Self.time) }
        }
        search.withLock { $0 = task }
    }

    private func becomeAnother(on connection: PostgresConnection) throws -> NodeID {
        let (id, time) = (NodeID(), Self.time)
        let added = try Self.add(Row(id: id, url: url, version: version), after: nil, now, on: connection)
        withBeats { $0.joined(as: id, at: time, added.reading) }
        note(added.reading, position: added.position, at: time)
        return id
    }

    private func leave(_ connection: PostgresConnection?) {
        // A node that cannot say what is lost must not look like one that had nothing to say.
        guard isSettled else { return }
        guard let open = try? connection ?? PostgresConnection(PostgresSettings.parameters(parameters, of: id)) else { return }
        try? Self.leave(id, on: open)
    }
}
#endif
