// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// A sender identifies a command by its id alone, because the channel identifies the sender. A target also needs the sender, because ids are
// unique only for each sender.

extension EndpointMessage {
    /// Sends a command to the relay. `ok` means that the relay has stored it.
    package struct CommandSend: NumberedControlMessage {
        package static let type = "command.send"
        package var ref: RequestRef
        package var command: Blob<BlobKinds.Command>
        /// These bytes may have been sent before. Absent on the wire when false.
        package var again: Bool
        /// The target may have them without this relay. Absent on the wire when false.
        package var offered: Bool
        /// With `offered`, the target has told the sender that it has them. Absent on the wire when false.
        package var received: Bool

        package init(
            ref: RequestRef,
            command: Blob<BlobKinds.Command>,
            again: Bool = false,
            offered: Bool = false,
            received: Bool = false
        ) {
            self.ref = ref
            self.command = command
            self.again = again
            self.offered = offered
            self.received = received
        }

        package var history: CommandHistory { offered ? received ? .received : .offered : again ? .sent : .new }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.command = try json.member("command")
            self.again = try json.optional("again") ?? false
            self.offered = try json.optional("offered") ?? false
            self.received = try json.optional("received") ?? false
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("command", command)
            if again { json.member("again", true) }
            if offered { json.member("offered", true) }
            if received { json.member("received", true) }
        }
    }

    /// Cancels a command that this endpoint has sent.
    package struct CommandCancel: NumberedControlMessage {
        package static let type = "command.cancel"
        package var ref: RequestRef
        package var id: CommandID

        package init(ref: RequestRef, id: CommandID) {
            self.ref = ref
            self.id = id
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.id = try json.member("id")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("id", id)
        }
    }

    /// The target has stored the command.
    package struct CommandReceived: ControlMessage {
        package static let type = "command.received"
        package var sender: EndpointID
        package var id: CommandID

        package init(sender: EndpointID, id: CommandID) {
            self.sender = sender
            self.id = id
        }

        package init(json: JSONValue) throws(JSONError) {
            self.sender = try json.member("sender")
            self.id = try json.member("id")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("sender", sender)
            json.member("id", id)
        }
    }

    /// The target reports the outcome of the command. The answer is `command.settled`, not `ok`.
    package struct CommandResult: NumberedControlMessage {
        package static let type = "command.result"
        package var ref: RequestRef
        package var sender: EndpointID
        package var id: CommandID
        package var receipt: Blob<BlobKinds.Receipt>
        package var reply: Blob<BlobKinds.Reply>?

        package init(
            ref: RequestRef,
            sender: EndpointID,
            id: CommandID,
            receipt: Blob<BlobKinds.Receipt>,
            reply: Blob<BlobKinds.Reply>? = nil
        ) {
            self.ref = ref
            self.sender = sender
            self.id = id
            self.receipt = receipt
            self.reply = reply
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.sender = try json.member("sender")
            self.id = try json.member("id")
            self.receipt = try json.member("receipt")
            self.reply = try json.optional("reply")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("sender", sender)
            json.member("id", id)
            json.member("receipt", receipt)
            json.member("reply", reply)
        }
    }

    /// The sender has stored the final outcome, so the relay need not keep it.
    package struct CommandAcknowledge: ControlMessage {
        package static let type = "command.acknowledge"
        package var id: CommandID

        package init(id: CommandID) { self.id = id }

        package init(json: JSONValue) throws(JSONError) {
            self.id = try json.member("id")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("id", id)
        }
    }
}

extension RelayMessage {
    /// Offers a command to its target.
    package struct Command: ControlMessage {
        package static let type = "command"
        package var command: Blob<BlobKinds.Command>
        /// The sender; absent if no endpoint sent the command.
        package var sender: Introduction?
        /// The target has confirmed the command before. Absent on the wire when false.
        package var wasReceived: Bool

        package init(command: Blob<BlobKinds.Command>, sender: Introduction?, wasReceived: Bool = false) {
            self.command = command
            self.sender = sender
            self.wasReceived = wasReceived
        }

        package init(json: JSONValue) throws(JSONError) {
            self.command = try json.member("command")
            self.sender = try json.optional("sender")
            self.wasReceived = try json.optional("received") ?? false
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("command", command)
            json.member("sender", sender)
            if wasReceived { json.member("received", true) }
        }
    }

    /// The sender of an offered command asks the target to stop. The target still decides, and still sends a result.
    package struct CommandCancel: ControlMessage {
        package static let type = "command.cancel"
        package var sender: EndpointID
        package var id: CommandID

        package init(sender: EndpointID, id: CommandID) {
            self.sender = sender
            self.id = id
        }

        package init(json: JSONValue) throws(JSONError) {
            self.sender = try json.member("sender")
            self.id = try json.member("id")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("sender", sender)
            json.member("id", id)
        }
    }

    /// The result is stored: the target may forget the reply.
    package struct CommandSettled: NumberedControlMessage {
        package static let type = "command.settled"
        package var ref: RequestRef
        package var sender: EndpointID
        package var id: CommandID

        package init(ref: RequestRef, sender: EndpointID, id: CommandID) {
            self.ref = ref
            self.sender = sender
            self.id = id
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.sender = try json.member("sender")
            self.id = try json.member("id")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("sender", sender)
            json.member("id", id)
        }
    }

    /// Reports the progress or outcome of a command to its sender.
    package struct CommandStatus: ControlMessage {
        package static let type = "command.status"
        package var id: CommandID
        package var status: Status

        package init(id: CommandID, status: Status) {
            self.id = id
            self.status = status
        }

        /// The progress of a command. It is a string on the wire, so that a newer relay can add steps.
        package struct State: RawRepresentable, JSONCodable, Hashable, Sendable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            /// Stored by the relay.
            package static let accepted = Self(rawValue: "accepted")
            /// The target sleeps, and the relay has sent it a wake.
            package static let waking = Self(rawValue: "waking")
            /// Stored by the target.
            package static let delivered = Self(rawValue: "delivered")
            /// It has ended.
            package static let final = Self(rawValue: "final")
        }

        /// A step, or the outcome with the party that attests it.
        package enum Status: Hashable, Sendable {
            /// Any step except `waking`.
            case step(State)
            case waking(CommandWake)
            /// The target's receipt, which contains the outcome, and its reply.
            case attestedByTarget(Blob<BlobKinds.Receipt>, reply: Blob<BlobKinds.Reply>?)
            /// Only an outcome that the relay can know.
            case attestedByRelay(CommandOutcome)
        }
    }
}

extension RelayMessage.CommandStatus {
    package init(json: JSONValue) throws(JSONError) {
        self.id = try json.member("id")
        let state: State = try json.member("state")
        if state == .waking {
            let channel: String? = try json.optional("channel")
            if let channel, channel.utf8.count > PushRegistration.maximumTypeBytes { throw json.invalid("channel") }
            self.status = .waking(CommandWake(channel: channel, expectedWithin: try json.optional("expectedWithin")))
            return
        }
        guard state == .final else {
            self.status = .step(state)
            return
        }
        switch try json.member("attestedBy") as CommandAttestation {
        case .target: self.status = .attestedByTarget(try json.member("receipt"), reply: try json.optional("reply"))
        case .relay:
            let outcome = try CommandOutcome(json: json)
            guard outcome.canBeAttestedByRelay else { throw json.invalid("outcome") }
            self.status = .attestedByRelay(outcome)
        }
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("id", id)
        switch status {
        case .step(let state): json.member("state", state)
        case .waking(let wake):
            json.member("state", State.waking)
            json.member("channel", wake.channel)
            json.member("expectedWithin", wake.expectedWithinMilliseconds)
        case .attestedByTarget(let receipt, let reply):
            json.member("state", State.final)
            json.member("attestedBy", CommandAttestation.target)
            json.member("receipt", receipt)
            json.member("reply", reply)
        case .attestedByRelay(let outcome):
            json.member("state", State.final)
            json.member("attestedBy", CommandAttestation.relay)
            outcome.writeMembers(to: &json)
        }
    }
}
