// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What endpoints say for each command.
extension EndpointMessage {
    /// Reads as `Decodable` does, in a fraction of its time. `nil` for all else, and for what is not in order: `Decodable` says why.
    init?(frequent index: JSONIndex, limits: Limits) {
        func text(_ key: String) -> String? { index.member(key).flatMap { $0.kind == .string ? index.text($0) : nil } }
        func blob<Kind>(_ key: String) -> Blob<Kind>? {
            guard let node = index.member(key), node.kind == .string, !node.hasEscapes else { return nil }
            return Blob(base64: index.bytes[node.start..<node.end], limits: limits)
        }
        var ref: RequestRef? {
            index.member("ref").flatMap { $0.kind == .number ? Int64(index.text($0)).flatMap { RequestRef($0) } : nil }
        }
        var id: CommandID? { text("id").flatMap { CommandID($0) } }
        var sender: EndpointID? { text("sender").flatMap { EndpointID($0) } }
        switch text("type") {
        case CommandSend.type:
            guard let ref, let command: Blob<BlobKinds.Command> = blob("command") else { return nil }
            let again = index.member("again")?.kind
            guard again == nil || again == .yes || again == .no else { return nil }
            self = .commandSend(.init(ref: ref, command: command, again: again == .yes))
        case CommandReceived.type:
            guard let sender, let id else { return nil }
            self = .commandReceived(.init(sender: sender, id: id))
        case CommandResult.type:
            guard let ref, let sender, let id, let receipt: Blob<BlobKinds.Receipt> = blob("receipt") else { return nil }
            let reply: Blob<BlobKinds.Reply>? = blob("reply")
            guard reply != nil || index.member("reply") == nil else { return nil }
            self = .commandResult(.init(ref: ref, sender: sender, id: id, receipt: receipt, reply: reply))
        case CommandAcknowledge.type:
            guard let id else { return nil }
            self = .commandAcknowledge(.init(id: id))
        default: return nil
        }
    }
}
