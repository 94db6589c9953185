// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What endpoints say for each command, read and written without `Codable`, as that would.
extension EndpointMessage {
    /// `nil` for all else, and for what is not in order.
    init?(frequent fields: FrequentFields) {
        switch fields.text("type") {
        case CommandSend.type:
            guard let ref = fields.ref, let command: Blob<BlobKinds.Command> = fields.blob("command") else { return nil }
            let again = fields.node("again")?.kind
            guard again == nil || again == .yes || again == .no else { return nil }
            self = .commandSend(.init(ref: ref, command: command, again: again == .yes))
        case CommandReceived.type:
            guard let sender = fields.sender, let id = fields.id else { return nil }
            self = .commandReceived(.init(sender: sender, id: id))
        case CommandResult.type:
            guard let ref = fields.ref, let sender = fields.sender, let id = fields.id,
                let receipt: Blob<BlobKinds.Receipt> = fields.blob("receipt")
            else { return nil }
            let reply: Blob<BlobKinds.Reply>? = fields.blob("reply")
            guard reply != nil || !fields.has("reply") else { return nil }
            self = .commandResult(.init(ref: ref, sender: sender, id: id, receipt: receipt, reply: reply))
        case CommandAcknowledge.type:
            guard let id = fields.id else { return nil }
            self = .commandAcknowledge(.init(id: id))
        default: return nil
        }
    }

    /// `nil` for what is said seldom.
    var frequentJSON: [UInt8]? {
        switch self {
        case .commandSend(let message):
            return JSONObject.message(CommandSend.type, capacity: 96 + message.command.textLength) { object in
                object.put("ref", message.ref.number)
                object.put("command", message.command)
                if message.again { object.put("again", true) }
            }
        case .commandReceived(let message):
            return JSONObject.message(CommandReceived.type, capacity: 192) { object in
                object.put("sender", message.sender.description)
                object.put("id", message.id.description)
            }
        case .commandResult(let message):
            let capacity = 256 + message.receipt.textLength + (message.reply?.textLength ?? 0)
            return JSONObject.message(CommandResult.type, capacity: capacity) { object in
                object.put("ref", message.ref.number)
                object.put("sender", message.sender.description)
                object.put("id", message.id.description)
                object.put("receipt", message.receipt)
                if let reply = message.reply { object.put("reply", reply) }
            }
        case .commandAcknowledge(let message):
            return JSONObject.message(CommandAcknowledge.type, capacity: 96) { $0.put("id", message.id.description) }
        default: return nil
        }
    }
}
