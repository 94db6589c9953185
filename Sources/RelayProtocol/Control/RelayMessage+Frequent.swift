// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a relay says for each command, and to everybody when all come at once, read and written without `Codable`, as that would.
extension RelayMessage {
    /// `nil` for what is said seldom.
    var frequentJSON: [UInt8]? {
        switch self {
        case .ok(let ok):
            guard ok.result?.tunnel == nil, ok.result?.isWaking == nil else { return nil }
            return JSONObject.message(RelayMessage.OK.type, capacity: 64) { object in
                object.put("ref", ok.ref.number)
                guard let result = ok.result else { return }
                object.put("result") { object in
                    if let state = result.state { object.put("state", state.rawValue) }
                }
            }
        case .command(let offer):
            return JSONObject.message(Command.type, capacity: 128 + offer.command.textLength + (offer.sender?.textLength ?? 0)) { object in
                object.put("command", offer.command)
                if let sender = offer.sender { object.put("sender", sender) }
            }
        case .commandStatus(let told):
            return told.frequentJSON.map { body in JSONObject.message(CommandStatus.type, capacity: told.textLength, body) }
        case .commandSettled(let settled):
            return JSONObject.message(CommandSettled.type, capacity: 192) { object in
                object.put("ref", settled.ref.number)
                object.put("sender", settled.sender.description)
                object.put("id", settled.id.description)
            }
        case .endpointAdded(let added):
            let capacity = added.registrations.reduce(384 + added.introduction.textLength) { $0 + $1.textLength }
            return JSONObject.message(EndpointAdded.type, capacity: capacity) { object in
                object.put("endpoint", added.endpoint.description)
                object.put("introduction", added.introduction)
                object.put("registrations", added.registrations)
                object.put("presence", added.presence)
                if let joining = added.joining { object.put("joining", joining) }
            }
        case .endpointUpdated(let updated):
            guard updated.introduction == nil, updated.registrations == nil else { return nil }
            return JSONObject.message(EndpointUpdated.type, capacity: 256) { object in
                object.put("endpoint", updated.endpoint.description)
                if let presence = updated.presence { object.put("presence", presence) }
            }
        default: return nil
        }
    }

    /// `nil` for what is said seldom, and for what is not in order.
    init?(frequent fields: FrequentFields) {
        switch fields.text("type") {
        case RelayMessage.OK.type:
            guard let ref = fields.ref else { return nil }
            guard fields.has("result") else {
                self = .ok(.init(ref: ref))
                return
            }
            guard let result = fields.fields("result"), let state = result.text("state"), !result.has("tunnel"), !result.has("waking")
            else {
                return nil
            }
            self = .ok(.init(ref: ref, result: .init(state: .init(rawValue: state))))
        case Command.type:
            guard let command: Blob<BlobKinds.Command> = fields.blob("command"), let sender = fields.fields("sender"),
                let record: Blob<BlobKinds.EndpointRecord> = sender.blob("record"),
                let vouchers: [Blob<BlobKinds.Voucher>] = sender.blobs("vouchers"), vouchers.count <= fields.limits[.endpointsPerAccount]
            else { return nil }
            self = .command(.init(command: command, sender: .init(record: record, vouchers: vouchers)))
        case CommandStatus.type:
            guard let id = fields.id, let state = fields.text("state").map({ CommandStatus.State(rawValue: $0) }) else { return nil }
            guard state == .final else {
                self = .commandStatus(.init(id: id, status: .step(state)))
                return
            }
            guard fields.text("attestedBy") == CommandAttestation.target.rawValue,
                let receipt: Blob<BlobKinds.Receipt> = fields.blob("receipt")
            else { return nil }
            let reply: Blob<BlobKinds.Reply>? = fields.blob("reply")
            guard reply != nil || !fields.has("reply") else { return nil }
            self = .commandStatus(.init(id: id, status: .attestedByTarget(receipt, reply: reply)))
        case CommandSettled.type:
            guard let ref = fields.ref, let sender = fields.sender, let id = fields.id else { return nil }
            self = .commandSettled(.init(ref: ref, sender: sender, id: id))
        default: return nil
        }
    }
}

extension JSONObject {
    static func message(_ type: String, capacity: Int, _ body: (inout JSONObject) -> Void) -> [UInt8] {
        var object = JSONObject(capacity: capacity)
        object.put("type", type)
        body(&object)
        object.end()
        return object.bytes
    }
}

extension RelayMessage.CommandStatus {
    fileprivate var frequentJSON: ((inout JSONObject) -> Void)? {
        switch status {
        case .step(let state):
            return { object in
                object.put("id", id.description)
                object.put("state", state.rawValue)
            }
        case .attestedByTarget(let receipt, let reply):
            return { object in
                object.put("id", id.description)
                object.put("state", State.final.rawValue)
                object.put("attestedBy", CommandAttestation.target.rawValue)
                object.put("receipt", receipt)
                if let reply { object.put("reply", reply) }
            }
        case .attestedByRelay: return nil
        }
    }

    fileprivate var textLength: Int {
        guard case .attestedByTarget(let receipt, let reply) = status else { return 128 }
        return 192 + receipt.textLength + (reply?.textLength ?? 0)
    }
}

extension JSONObject {
    fileprivate mutating func put(_ key: StaticString, _ introduction: Introduction) {
        put(key) { object in
            object.put("record", introduction.record)
            object.put("vouchers", introduction.vouchers)
        }
    }

    fileprivate mutating func put(_ key: StaticString, _ presence: Presence) {
        put(key) { object in
            object.put("state", presence.state.rawValue)
            object.put("reason", presence.reason.rawValue)
            if let since = presence.sinceMilliseconds { object.put("since", since.count) }
            if let within = presence.expectedWithinMilliseconds { object.put("expectedWithin", within.count) }
        }
    }

    fileprivate mutating func put(_ key: StaticString, _ joining: Joining) {
        put(key) { object in
            object.put("time", joining.time.count)
            if let inviter = joining.invitedBy { object.put("invitedBy", inviter.description) }
            if let address = joining.address { object.put("address", address) }
        }
    }
}

extension Blob {
    var textLength: Int { (bytes.count + 2) / 3 * 4 + 2 }
}

extension Introduction {
    fileprivate var textLength: Int { vouchers.reduce(32 + record.textLength) { $0 + $1.textLength + 1 } }
}
