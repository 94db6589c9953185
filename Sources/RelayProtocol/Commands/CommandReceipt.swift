// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The target's statement of a command's outcome, signed by its identity key.
package struct CommandReceipt: SignedPayload {
    package static let purpose = Purpose.receipt
    /// The maximum length of a reason, in UTF-8 bytes. A reason has no U+0000, because programs in C would read the text before it.
    package static let maximumReasonBytes = 1_024

    /// The command's digest.
    package let command: Digest256
    package let sender: EndpointID
    package let target: EndpointID
    package let outcome: CommandOutcome
    /// The digest of the sealed reply, if there is one.
    package let reply: Digest256?
    /// The highest number of the lane, if the command was not accepted because its number has passed. A `failed` command has then not run
    /// and will not: its sender signs it again, above this number.
    package let highest: UInt64?
    /// Milliseconds since 1970, in relay time.
    package let time: Int64

    package init(for command: CommandDescriptor, outcome: CommandOutcome, highest: UInt64? = nil, reply: [UInt8]? = nil, time: Int64) {
        self.command = command.digest
        self.sender = command.lane.sender
        self.target = command.lane.target
        self.outcome = outcome
        self.highest = highest
        self.reply = reply.map { Digest256(hashing: $0) }
        self.time = time
    }

    /// Reads the fields directly, because relay and sender read one receipt for each command.
    package init(reading set: ValueSet) throws {
        func digest(_ key: String) -> Digest256? { set[key]?.data.flatMap { Digest256(bytes: $0) } }
        func endpoint(_ key: String) -> EndpointID? { set[key]?.string.flatMap { EndpointID($0) } }
        guard let command = digest("command"), let sender = endpoint("sender"), let target = endpoint("target"),
            let outcome = set["outcome"]?.valueSet, let time = set["time"]?.int64
        else { throw RecordError.malformed }
        let reply = digest("reply")
        guard reply != nil || set["reply"] == nil else { throw RecordError.malformed }
        let highest = set["highest"]?.uint64
        guard highest != nil || set["highest"] == nil else { throw RecordError.malformed }
        self.command = command
        self.sender = sender
        self.target = target
        self.outcome =
            outcome.count == 1 && outcome["outcome"]?.string == "succeeded" ? .succeeded : try ValueSetDecoder().decode(from: outcome)
        self.highest = highest
        self.reply = reply
        self.time = time
    }

    package func validate(limits: Limits) throws(RecordError) {
        if let highest, !WireNumber.range.contains(highest) { throw .invalidField("highest") }
        switch outcome {
        case .declined(let reason), .failed(let reason):
            if reason.utf8.count > Self.maximumReasonBytes || reason.utf8.contains(0) { throw .invalidField("reason") }
        case .succeeded, .unsupported, .expired, .cancelled, .indeterminate: break
        }
    }
}

extension Signed<CommandReceipt> {
    /// Reads the receipt of a command that this endpoint sent.
    /// - Parameters:
    ///   - target: a record of the target; all its records have the same identity key.
    ///   - reply: the sealed reply that the relay delivered with the receipt.
    package init(verifying encoded: [UInt8], for command: CommandDescriptor, from target: EndpointRecord, reply: SealedReply?)
        throws(CommandError)
    {
        do throws(RecordError) {
            try self.init(verifying: encoded) { (_) throws(RecordError) in target.identityKey }
        } catch {
            throw error == .badSignature ? .badSignature : .malformed
        }
        guard payload.command == command.digest else { throw .wrongCommand }
        guard payload.sender == command.lane.sender else { throw .wrongSender }
        guard payload.target == command.lane.target, payload.target == target.endpointID else { throw .wrongTarget }
        guard payload.reply == reply?.digest else { throw .wrongCommand }
    }
}

extension CommandFinal {
    /// The final state that a sender derives from a receipt. The relay keeps only the first receipt of a command. If that one is invalid,
    /// by a fault of target or relay, the command may have run, and its outcome stays unknown.
    /// - Parameter isSignedAgain: Whether the command was signed more than once. The receipt may then be for earlier bytes, and says
    ///   nothing about these: the result is `nil`.
    package init?(
        receipt: [UInt8],
        reply: [UInt8]?,
        of command: CommandDescriptor,
        isSignedAgain: Bool = false,
        from target: EndpointRecord
    ) {
        do {
            let reply = try reply.map { try SealedReply(decoding: $0) }
            let signed = try Signed<CommandReceipt>(verifying: receipt, for: command, from: target, reply: reply)
            self.init(outcome: signed.payload.outcome, receipt: receipt, reply: reply?.encoded, highest: signed.payload.highest)
        } catch CommandError.wrongCommand where isSignedAgain {
            return nil
        } catch {
            self.init(attestedByRelay: .indeterminate(.targetLost))
        }
    }
}

extension CommandOutcome: Codable {
    private enum Name: String, JSONCodable, Codable {
        case succeeded, declined, unsupported, failed, expired, cancelled, indeterminate
    }

    private enum CodingKeys: String, CodingKey {
        case name = "outcome"
        case reason
    }

    /// Reads `{"outcome": name}`, with a `reason` for `failed` and `indeterminate`, and an optional one for `declined`.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self =
            switch try container.decode(Name.self, forKey: .name) {
            case .succeeded: .succeeded
            case .declined: .declined(reason: try container.decodeIfPresent(String.self, forKey: .reason) ?? "")
            case .unsupported: .unsupported
            case .failed: .failed(reason: try container.decode(String.self, forKey: .reason))
            case .expired: .expired
            case .cancelled: .cancelled
            case .indeterminate: .indeterminate(try container.decode(Indeterminate.self, forKey: .reason))
            }
    }

    /// Writes `{"outcome": name}`, with a `reason` for `failed` and `indeterminate`, and for `declined` if there is one.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        if case .declined(let reason) = self, !reason.isEmpty { try container.encode(reason, forKey: .reason) }
        if case .failed(let reason) = self { try container.encode(reason, forKey: .reason) }
        if case .indeterminate(let reason) = self { try container.encode(reason, forKey: .reason) }
    }

    private var name: Name {
        switch self {
        case .succeeded: .succeeded
        case .declined: .declined
        case .unsupported: .unsupported
        case .failed: .failed
        case .expired: .expired
        case .cancelled: .cancelled
        case .indeterminate: .indeterminate
        }
    }
}

extension CommandOutcome: JSONObjectCodable {
    package init(json: JSONValue) throws(JSONError) {
        self =
            switch try json.member("outcome") as Name {
            case .succeeded: .succeeded
            case .declined: .declined(reason: try json.optional("reason") ?? "")
            case .unsupported: .unsupported
            case .failed: .failed(reason: try json.member("reason"))
            case .expired: .expired
            case .cancelled: .cancelled
            case .indeterminate: .indeterminate(try json.member("reason"))
            }
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("outcome", name)
        if case .declined(let reason) = self, !reason.isEmpty { json.member("reason", reason) }
        if case .failed(let reason) = self { json.member("reason", reason) }
        if case .indeterminate(let reason) = self { json.member("reason", reason) }
    }
}

extension CommandOutcome.Indeterminate: JSONCodable {}
extension CommandAttestation: JSONCodable {}
