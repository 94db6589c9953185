// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands of this endpoint that have not ended, and which of them are on their way to the relay. Other processes of the
/// endpoint send commands too; what they have stored before in the same lane is sent first here as well, since the same bytes may be
/// sent any number of times, but never out of order.
package struct SentCommands: Hashable, Sendable {
    /// To be done for one command, in order.
    package struct Step: Hashable, Sendable {
        package let id: CommandID
        package let action: SentCommand.Action
    }

    private var rows: [CommandID: SentCommand] = [:]
    /// `nil` without a connection, and until what is stored was read for a new one.
    private var sending: CommandSending?
    /// Until then, those that have come since the connection did: what was read may not hold them.
    private var added: [CommandID]?

    package init() {}

    package subscript(id: CommandID) -> SentCommand? { rows[id] }

    package mutating func disconnected() { (sending, added) = (nil, nil) }

    /// Whether a command that is added gets its turn on the present connection.
    package var isConnected: Bool { sending != nil }

    /// There is a new connection, for which what is stored will be read.
    package mutating func connected() { (sending, added) = (nil, []) }

    /// This is what is stored without an end. Nothing is done if the connection that it was read for is lost.
    package mutating func begin(_ stored: [SentCommand]) -> [Step] {
        guard let added else { return [] }
        self.added = nil
        let known = rows
        rows = Dictionary(stored.map { ($0.command.id, known[$0.command.id]?.read(again: $0) ?? $0) }) { first, _ in first }
        for id in added where rows[id] == nil { rows[id] = known[id] }
        var sending = CommandSending(commands: rows.values.map(\.command))
        let first = sending.start()
        self.sending = sending
        return first.flatMap { input($0) { $0.connected() } }
    }

    /// A command is stored.
    /// - Parameter others: Those before it in its lane that the relay has not answered yet, also those of other processes. One that was
    ///   adopted before gets its turn now.
    package mutating func add(_ command: SentCommand, behind others: [SentCommand]) -> [Step] {
        (others + [command]).flatMap { command -> [Step] in
            let id = command.command.id
            if rows[id] == nil { keep(command) }
            guard let row = rows[id], row.isUnanswered, let sending, !sending.holds(row.command) else { return [] }
            guard self.sending?.add(row.command) ?? false else { return [] }
            return input(id) { $0.connected() }
        }
    }

    /// A command that another process has sent, and that something is heard of.
    package mutating func adopt(_ command: SentCommand) {
        if rows[command.command.id] == nil { keep(command) }
    }

    private mutating func keep(_ command: SentCommand) {
        rows[command.command.id] = command
        added?.append(command.command.id)
    }

    /// What is stored of a command is not what this process knew.
    package mutating func replace(_ command: SentCommand) { rows[command.command.id] = command }

    /// Something happened to a command.
    package mutating func input(_ id: CommandID, _ body: (inout SentCommand) -> [SentCommand.Action]) -> [Step] {
        guard var row = rows[id] else { return [] }
        let actions = body(&row)
        rows[id] = row
        return actions.map { Step(id: id, action: $0) }
    }

    /// The owner has signed a command anew.
    package mutating func signedAnew(_ command: CommandDescriptor) -> [Step] {
        let isCurrent = sending?.isCurrent(command) ?? false
        return input(command.id) { $0.signedAnew(command, sending: isCurrent) }
    }

    /// The app was told the end of a command.
    package mutating func remove(_ id: CommandID) { rows[id] = nil }

    /// The relay has answered, or the command has ended, and that is stored.
    package mutating func answered(_ id: CommandID) -> [Step] {
        guard let row = rows[id] else { return [] }
        guard let next = sending?.answered(row.command) else { return [] }
        return input(next) { $0.connected() }
    }
}
