// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The open commands of this endpoint, and which of them are being sent to the relay, and on direct sessions to their targets. Other
/// processes of the endpoint send commands too. This process sends their earlier commands in the same lane first as well: relay and target
/// accept repeated bytes, but a lane must stay in order.
package struct OutboxCommands: Hashable, Sendable {
    /// An action for one command. Steps are performed in order.
    package struct Step: Hashable, Sendable {
        package let id: CommandID
        package let action: SentCommand.Action
    }

    /// The lanes to one target on a direct session.
    private struct Direct: Hashable {
        var lanes = OutboxLanes(commands: [])
        /// The commands that were added to the lanes on this session.
        var known: Set<CommandID> = []
    }

    /// Whether a relay can get the commands.
    package let hasRelay: Bool
    private var rows: [CommandID: SentCommand] = [:]
    /// The targets with a direct session.
    private var direct: [EndpointID: Direct] = [:]
    /// `nil` without a connection, and until the stored commands have been read for a new one.
    private var sending: OutboxLanes?
    /// Commands added since the connection was opened and before `begin`. The stored commands may not include them.
    private var added: [CommandID]?

    package init(hasRelay: Bool = true) { self.hasRelay = hasRelay }

    package subscript(id: CommandID) -> SentCommand? { rows[id] }

    package mutating func disconnected() { (sending, added) = (nil, nil) }

    /// Whether an added command is sent on the current connection.
    package var isConnected: Bool { sending != nil }

    /// Starts a connection. The caller then reads the stored commands.
    package mutating func connected() { (sending, added) = (nil, []) }

    /// Starts to send the stored open commands. It does nothing if the connection was lost in the meantime.
    package mutating func begin(_ stored: [SentCommand]) -> [Step] {
        guard let added else { return [] }
        self.added = nil
        let known = rows
        rows = Dictionary(stored.map { ($0.command.id, known[$0.command.id]?.read(again: $0) ?? $0) }) { first, _ in first }
        for id in added where rows[id] == nil { rows[id] = known[id] }
        var sending = OutboxLanes(commands: rows.values.map(\.command))
        let first = sending.start()
        self.sending = sending
        return first.flatMap { input($0) { $0.connected() } }
    }

    // MARK: Direct sessions

    package mutating func connected(directlyTo target: EndpointID) { direct[target] = Direct() }

    /// The targets with a direct session.
    package var directTargets: [EndpointID] { direct.keys.sorted() }

    package mutating func disconnected(directlyFrom target: EndpointID) { direct[target] = nil }

    /// Offers commands that are stored as direct, and were not offered on the session before. It does nothing if the session was lost in the
    /// meantime.
    package mutating func begin(_ marked: [SentCommand], directlyTo target: EndpointID) -> [Step] {
        guard direct[target] != nil else { return [] }
        var first: [CommandID] = []
        for row in marked.sorted(by: { $0.command.number < $1.command.number }) {
            let id = row.command.id
            rows[id] = rows[id]?.read(again: row) ?? row
            guard direct[target]?.known.insert(id).inserted ?? false else { continue }
            if direct[target]?.lanes.add(row.command) ?? false { first.append(id) }
        }
        return first.flatMap { input($0) { $0.connectedDirectly() } }
    }

    /// Continues the lane after the target's answer, or the end of the command, is stored.
    package mutating func answeredDirectly(_ id: CommandID) -> [Step] {
        guard let row = rows[id], let next = direct[row.command.lane.target]?.lanes.answered(row.command) else { return [] }
        return input(next) { $0.connectedDirectly() }
    }

    /// Whether the command was offered on the session, or its lane waits for the answer. Then it may be offered again.
    package func isOffered(_ command: CommandDescriptor) -> Bool {
        guard let direct = direct[command.lane.target], direct.known.contains(command.id) else { return false }
        return direct.lanes.isCurrent(command) || !direct.lanes.holds(command)
    }

    // MARK: Changes

    /// Adds a stored command.
    /// - Parameter others: Earlier commands in its lane that the relay has not answered, including those of other processes. A command that
    ///   was adopted before is now sent when the lane reaches it.
    package mutating func add(_ command: SentCommand, behind others: [SentCommand]) -> [Step] {
        (others + [command]).flatMap { command -> [Step] in
            let id = command.command.id
            if rows[id] == nil { keep(command) }
            guard let row = rows[id], let sending, !sending.holds(row.command) else { return [] }
            // An end that is not stored yet may not be taken, because another process may have sent the command. The lane waits for that.
            guard row.isUnanswered || row.isEnded && command.isUnanswered else { return [] }
            guard self.sending?.add(row.command) ?? false, row.isUnanswered else { return [] }
            return input(id) { $0.connected() }
        }
    }

    /// Adds a command of another process after a message about it arrived.
    package mutating func adopt(_ command: SentCommand) {
        if rows[command.command.id] == nil { keep(command) }
    }

    private mutating func keep(_ command: SentCommand) {
        rows[command.command.id] = command
        added?.append(command.command.id)
    }

    /// Replaces the state of a command that another process has changed.
    package mutating func replace(_ command: SentCommand) { rows[command.command.id] = command }

    /// Passes an event to a command.
    package mutating func input(_ id: CommandID, _ body: (inout SentCommand) -> [SentCommand.Action]) -> [Step] {
        guard var row = rows[id] else { return [] }
        let actions = body(&row)
        rows[id] = row
        return actions.map { Step(id: id, action: $0) }
    }

    /// Replaces a command that the owner has signed again.
    package mutating func signedAnew(_ command: CommandDescriptor) -> [Step] {
        guard rows[command.id]?.state == .prepared else { return [] }
        let isCurrent = takesItsTurn(command)
        return input(command.id) { $0.signedAnew(command, sending: isCurrent) }
    }

    /// Replaces a command that another process has signed again. This process sends the other's bytes too, as after a reconnection.
    package mutating func adopt(signedAgain stored: SentCommand) -> [Step] {
        let id = stored.command.id
        guard let known = rows.updateValue(stored, forKey: id) else { return [] }
        let steps = known.isCancelled && !stored.cancelRequested ? input(id) { $0.cancel() } : []
        // Not if it is in no lane here: earlier commands of its lane may be missing, and the other process sends them all.
        guard let row = rows[id], let sending, sending.holds(row.command) else { return steps }
        // The relay has answered another process.
        guard row.isUnanswered else { return steps + answered(id) }
        return takesItsTurn(row.command) ? steps + input(id) { $0.connected() } : steps
    }

    /// Whether the command may be sent now. If the relay had accepted the earlier bytes, the lane has gone on without the command.
    private mutating func takesItsTurn(_ command: CommandDescriptor) -> Bool {
        guard let sending else { return false }
        return sending.holds(command) ? sending.isCurrent(command) : self.sending?.add(command) ?? false
    }

    /// The earliest deadline of the commands; `nil` if none has one.
    package var nextDeadline: Int64? { rows.values.compactMap { $0.deadline(hasRelay: hasRelay) }.min() }

    package mutating func handleDeadlines(now: Int64) -> [Step] {
        rows.values.filter { $0.deadline(hasRelay: hasRelay).map { $0 <= now } ?? false }.map(\.command.id).sorted()
            .flatMap { [hasRelay] id in input(id) { $0.handleDeadline(now: now, hasRelay: hasRelay) } }
    }

    /// Removes a command whose end was reported to the app. No lane waits for it any more.
    package mutating func remove(_ id: CommandID) -> [Step] {
        let steps = answered(id) + answeredDirectly(id)
        rows[id] = nil
        return steps
    }

    /// Continues the lane after the relay's answer, or the end of the command, is stored.
    package mutating func answered(_ id: CommandID) -> [Step] {
        guard let row = rows[id] else { return [] }
        guard let next = sending?.answered(row.command) else { return [] }
        return input(next) { $0.connected() }
    }
}
