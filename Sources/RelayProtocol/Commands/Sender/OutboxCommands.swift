// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The open commands of this endpoint, and which of them are being sent to the relay. Other processes of the endpoint send commands too.
/// This process sends their earlier commands in the same lane first as well: the relay accepts repeated bytes, but a lane must stay in
/// order.
package struct OutboxCommands: Hashable, Sendable {
    /// An action for one command. Steps are performed in order.
    package struct Step: Hashable, Sendable {
        package let id: CommandID
        package let action: SentCommand.Action
    }

    private var rows: [CommandID: SentCommand] = [:]
    /// `nil` without a connection, and until the stored commands have been read for a new one.
    private var sending: OutboxLanes?
    /// Commands added since the connection was opened and before `begin`. The stored commands may not include them.
    private var added: [CommandID]?

    package init() {}

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

    /// Adds a stored command.
    /// - Parameter others: Earlier commands in its lane that the relay has not answered, including those of other processes. A command that
    ///   was adopted before is now sent when the lane reaches it.
    package mutating func add(_ command: SentCommand, behind others: [SentCommand]) -> [Step] {
        (others + [command]).flatMap { command -> [Step] in
            let id = command.command.id
            if rows[id] == nil { keep(command) }
            guard let row = rows[id], row.isUnanswered, let sending, !sending.holds(row.command) else { return [] }
            guard self.sending?.add(row.command) ?? false else { return [] }
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
        guard let row = rows[id], row.isUnanswered, takesItsTurn(row.command) else { return steps }
        return steps + input(id) { $0.connected() }
    }

    /// Whether the command may be sent now. If the relay had accepted the earlier bytes, the lane has gone on without the command.
    private mutating func takesItsTurn(_ command: CommandDescriptor) -> Bool {
        guard let sending else { return false }
        return sending.holds(command) ? sending.isCurrent(command) : self.sending?.add(command) ?? false
    }

    /// Removes a command whose end was reported to the app.
    package mutating func remove(_ id: CommandID) { rows[id] = nil }

    /// Continues the lane after the relay's answer, or the end of the command, is stored.
    package mutating func answered(_ id: CommandID) -> [Step] {
        guard let row = rows[id] else { return [] }
        guard let next = sending?.answered(row.command) else { return [] }
        return input(next) { $0.connected() }
    }
}
