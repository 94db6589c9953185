// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// The sender names a command by its id, since the channel says who the sender is. The target needs the sender too: ids are
// unique for each sender only.

extension EndpointMessage {
    /// Hands a command to the relay. `ok` means that it is stored.
    package struct CommandSend: NumberedControlMessage {
        package static let type = "command.send"
        package var ref: RequestRef
        package var command: Blob<BlobKinds.Command>
        /// These bytes may have been sent before. Absent on the wire when false.
        package var again: Bool

        package init(ref: RequestRef, command: Blob<BlobKinds.Command>, again: Bool = false) {
            self.ref = ref
            self.command = command
            self.again = again
        }

        private enum CodingKeys: String, CodingKey {
            case ref, command, again
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.ref = try container.decode(RequestRef.self, forKey: .ref)
            self.command = try container.decode(Blob<BlobKinds.Command>.self, forKey: .command)
            self.again = try container.decodeIfPresent(Bool.self, forKey: .again) ?? false
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(ref, forKey: .ref)
            try container.encode(command, forKey: .command)
            if again { try container.encode(true, forKey: .again) }
        }
    }

    /// Asks that a command this endpoint sent be not handled any more.
    package struct CommandCancel: NumberedControlMessage {
        package static let type = "command.cancel"
        package var ref: RequestRef
        package var id: CommandID

        package init(ref: RequestRef, id: CommandID) {
            self.ref = ref
            self.id = id
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
    }

    /// The target says how the command ended. Answered by `command.settled`, not by `ok`.
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
    }

    /// The sender has stored the final outcome, so the relay need not keep it.
    package struct CommandAcknowledge: ControlMessage {
        package static let type = "command.acknowledge"
        package var id: CommandID

        package init(id: CommandID) { self.id = id }
    }
}

extension RelayMessage {
    /// Offers a command to its target.
    package struct Command: ControlMessage {
        package static let type = "command"
        package var command: Blob<BlobKinds.Command>
        /// Who sent it; absent for what did not come from an endpoint.
        package var sender: Introduction?

        package init(command: Blob<BlobKinds.Command>, sender: Introduction?) {
            self.command = command
            self.sender = sender
        }
    }

    /// The sender of a command that was offered asks its target to stop. The target still decides, and still sends a result.
    package struct CommandCancel: ControlMessage {
        package static let type = "command.cancel"
        package var sender: EndpointID
        package var id: CommandID

        package init(sender: EndpointID, id: CommandID) {
            self.sender = sender
            self.id = id
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
    }

    /// Tells the sender how far a command is, or how it ended.
    package struct CommandStatus: ControlMessage {
        package static let type = "command.status"
        package var id: CommandID
        package var status: Status

        package init(id: CommandID, status: Status) {
            self.id = id
            self.status = status
        }

        /// How far a command is. A string on the wire, so that a newer relay may tell more steps.
        package struct State: RawRepresentable, Hashable, Sendable, Codable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            /// Stored by the relay.
            package static let accepted = Self(rawValue: "accepted")
            /// The target sleeps; it was sent a wake.
            package static let waking = Self(rawValue: "waking")
            /// Stored by the target.
            package static let delivered = Self(rawValue: "delivered")
            /// It has ended.
            package static let final = Self(rawValue: "final")
        }

        /// A step, or the end with the word of whoever attests it.
        package enum Status: Hashable, Sendable {
            case step(State)
            /// The target's receipt, which says the outcome, and its reply.
            case attestedByTarget(Blob<BlobKinds.Receipt>, reply: Blob<BlobKinds.Reply>?)
            /// Of the outcomes only those that the relay can know.
            case attestedByRelay(CommandOutcome)
        }
    }
}

extension RelayMessage.CommandStatus {
    private enum CodingKeys: String, CodingKey {
        case id, state, attestedBy, receipt, reply, outcome
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.id = try container.decode(CommandID.self, forKey: .id)
        let state = try container.decode(State.self, forKey: .state)
        guard state == .final else {
            self.status = .step(state)
            return
        }
        switch try container.decode(CommandAttestation.self, forKey: .attestedBy) {
        case .target:
            self.status = .attestedByTarget(
                try container.decode(Blob<BlobKinds.Receipt>.self, forKey: .receipt),
                reply: try container.decodeIfPresent(Blob<BlobKinds.Reply>.self, forKey: .reply)
            )
        case .relay:
            let outcome = try CommandOutcome(from: decoder)
            guard outcome.canBeAttestedByRelay else {
                throw DecodingError.dataCorruptedError(forKey: .outcome, in: container, debugDescription: "not for a relay to say")
            }
            self.status = .attestedByRelay(outcome)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        switch status {
        case .step(let state): try container.encode(state, forKey: .state)
        case .attestedByTarget(let receipt, let reply):
            try container.encode(State.final, forKey: .state)
            try container.encode(CommandAttestation.target, forKey: .attestedBy)
            try container.encode(receipt, forKey: .receipt)
            try container.encodeIfPresent(reply, forKey: .reply)
        case .attestedByRelay(let outcome):
            try container.encode(State.final, forKey: .state)
            try container.encode(CommandAttestation.relay, forKey: .attestedBy)
            try outcome.encode(to: encoder)
        }
    }
}
