// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The part of a command that the relay can read. The relay routes by the header alone. The body repeats none of its fields.
package struct CommandHeader: Codable, Hashable, Sendable {
    /// The only suite: HPKE with P-256, HKDF-SHA256, AES-256-GCM; ECDSA with P-256 and SHA-256.
    package static let currentSuite = 1

    /// What the body contains.
    package enum Kind: String, Codable, Sendable {
        case launch
        case message
    }

    package var suite: Int
    package var id: CommandID
    package var account: String
    package var relay: RelayID
    package var sender: EndpointID
    package var target: EndpointID
    package var senderApp: String?
    package var targetApp: String
    /// The id of the target's agreement key for which the body is sealed.
    package var keyID: [UInt8]
    package var kind: Kind
    /// Grows strictly within the lane.
    package var number: UInt64
    /// The lowest number with which the command was signed before, if it got a higher one since.
    package var firstNumber: UInt64?
    /// Milliseconds since 1970, in relay time.
    package var created: Int64
    /// Milliseconds since 1970, in relay time. From this time on the command is not handled.
    package var expires: Int64
    /// The span of the sender, if it traces the command.
    package var trace: TraceContext?

    package init(
        id: CommandID,
        account: String,
        relay: RelayID,
        sender: EndpointID,
        target: EndpointID,
        senderApp: String?,
        targetApp: String,
        keyID: [UInt8],
        kind: Kind,
        number: UInt64,
        created: Int64,
        expires: Int64
    ) {
        self.suite = Self.currentSuite
        self.id = id
        self.account = account
        self.relay = relay
        self.sender = sender
        self.target = target
        self.senderApp = senderApp
        self.targetApp = targetApp
        self.keyID = keyID
        self.kind = kind
        self.number = number
        self.created = created
        self.expires = expires
    }

    /// Reads a header as `ValueSetDecoder` does, but faster, because the relay reads one for each command.
    init(decoding set: ValueSet) throws(CommandError) {
        var fields = ValueSet.Fields(set)
        // In the order of the encoding.
        guard let id = fields.take("id")?.string.flatMap({ CommandID($0) }),
            let kind = fields.take("kind")?.string.flatMap({ Kind(rawValue: $0) }),
            let keyID = fields.take("keyID")?.data,
            let relay = fields.take("relay")?.string.flatMap({ RelayID($0) }),
            let suite = fields.take("suite")?.int
        else {
            throw .malformed
        }
        let traceField = fields.take("trace")
        let trace = traceField?.string.flatMap { TraceContext(rawValue: $0) }
        guard traceField == nil || trace != nil,
            let number = fields.take("number")?.uint64,
            let sender = fields.take("sender")?.string.flatMap({ EndpointID($0) }),
            let target = fields.take("target")?.string.flatMap({ EndpointID($0) }),
            let account = fields.take("account")?.string,
            let created = fields.take("created")?.int64,
            let expires = fields.take("expires")?.int64
        else {
            throw .malformed
        }
        let senderApp = fields.take("senderApp")
        guard senderApp == nil || senderApp?.string != nil, let targetApp = fields.take("targetApp")?.string else { throw .malformed }
        let firstNumber = fields.take("firstNumber")
        guard firstNumber == nil || firstNumber?.uint64 != nil else { throw .malformed }
        self.init(
            id: id,
            account: account,
            relay: relay,
            sender: sender,
            target: target,
            senderApp: senderApp?.string,
            targetApp: targetApp,
            keyID: keyID,
            kind: kind,
            number: number,
            created: created,
            expires: expires
        )
        self.suite = suite
        self.trace = trace
        self.firstNumber = firstNumber?.uint64
    }

    package var lane: CommandLane { CommandLane(sender: sender, target: target, appID: targetApp) }

    /// Whether the command lives longer than allowed. Such a header is well formed; the relay refuses the command with a separate code.
    package var livesTooLong: Bool { expires > created.saturatingAdding(CommandPeriod.maximumLife) }

    /// Checks what the types do not ensure.
    func validate() throws(CommandError) {
        guard suite == Self.currentSuite else { throw .unknownSuite(suite) }
        let identifiers = [account, targetApp] + (senderApp.map { [$0] } ?? [])
        for text in identifiers where !ProgramText.isValid(text) { throw .malformed }
        let (timeToLive, overflow) = expires.subtractingReportingOverflow(created)
        guard keyID.count == 16, WireNumber.range.contains(number), created >= 0, expires < 1 << 53, !overflow, timeToLive > 0 else {
            throw .malformed
        }
        if let firstNumber, firstNumber < 1 || firstNumber >= number { throw .malformed }
    }
}
