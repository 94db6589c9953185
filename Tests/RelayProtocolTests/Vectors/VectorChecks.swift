// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

@testable import RelayProtocol

extension IdentityVectors {
    /// Checks a signed statement as its reader does.
    static func check(_ encoded: [UInt8], _ kind: Kind, by key: SigningPublicKey, account: String, record: [UInt8]?) throws {
        let signer = EndpointID(key)
        switch kind {
        case .endpointRecord:
            let record = try Signed<EndpointRecord>(verifying: encoded)
            guard record.payload.endpointID == signer else { throw RecordError.wrongEndpoint }
            guard record.payload.account == account else { throw RecordError.wrongAccount }
        case .appRegistration:
            _ = try Signed<AppRegistration>(verifying: encoded, endpoint: signer, account: account, key: key)
        case .voucher:
            let newcomer = try Signed<EndpointRecord>(verifying: record ?? [])
            _ = try Signed<Voucher>(verifying: encoded, by: try voucher(key, account), for: newcomer)
        case .revocation:
            _ = try Signed<Revocation>(verifying: encoded, by: signer, key: key, account: account)
        }
    }

    /// A record for the voucher's signer. Only its key and account matter.
    private static func voucher(_ key: SigningPublicKey, _ account: String) throws -> EndpointRecord {
        try EndpointRecord(
            version: 1,
            account: account,
            identityKey: key,
            systemKey: P256SigningKey(),
            agreementKey: P256AgreementKey().publicKey,
            name: "n",
            kind: "k",
            platform: "p"
        )
    }
}

extension CommandVectors {
    /// Checks a command as the target does, and a receipt or reply as the sender does.
    func check(_ refused: Refused, _ keys: KeyVectors, sender: EndpointRecord, target: EndpointRecord) throws {
        switch refused.kind {
        case .command: try take(hex(refused.encoded), keys, from: sender)
        case .receipt:
            let reply = try refused.reply.map { try SealedReply(decoding: hex($0)) }
            let descriptor = try blob(refused.command).descriptor
            _ = try Signed<CommandReceipt>(verifying: hex(refused.encoded), for: descriptor, from: target, reply: reply)
        case .reply:
            let reply = try SealedReply(decoding: hex(refused.encoded))
            _ = try reply.open(try blob(refused.command), with: [try keys.agreement("phone.agreement")])
        }
    }

    @discardableResult
    func take(_ encoded: [UInt8], _ keys: KeyVectors, from sender: EndpointRecord) throws -> CommandBody {
        let command = try SealedCommand(decoding: encoded)
        let relay = try RelayID(parsing: relay)
        let recipient = SealedCommand.Recipient(account: account, relay: relay, endpoint: try keys.endpoint(target))
        try command.verify(for: recipient, from: sender, now: time)
        return try command.open(with: [try keys.agreement("pc.agreement")])
    }

    func blob(_ name: String?) throws -> SealedCommand {
        try SealedCommand(decoding: hex(commands.first { $0.name == name }?.encoded ?? ""))
    }
}

extension ControlVectors {
    struct Judgement: Hashable {
        var closes: Int?
        var answers: String?
        var isIgnored: Bool?
    }

    /// The receiver's reaction to a frame; `nil` if it is a valid message.
    static func judge(_ frame: [UInt8], from side: Side) -> Judgement? {
        do throws(ControlFrameError) {
            switch side {
            case .endpoint:
                switch try EndpointMessage.decode(from: ByteBuffer(bytes: frame), limits: Limits()) {
                case .message: return nil
                case .refused(let failure): return Judgement(answers: failure.code.rawValue)
                case .ignored: return Judgement(isIgnored: true)
                }
            case .relay:
                return try RelayMessage.decode(from: ByteBuffer(bytes: frame), limits: Limits()) == nil ? Judgement(isIgnored: true) : nil
            }
        } catch {
            return Judgement(closes: Int(error.closeCode))
        }
    }
}

extension SessionVectors {
    /// The rule that a stream violates at the TLS client, from the start of its session.
    static func error(of stream: [UInt8]) -> SessionError? {
        var machine = SessionStateMachine(role: .client)
        var decoder = SessionFrameDecoder()
        decoder.append(ByteBuffer(bytes: stream))
        var actions: [SessionAction] = []
        machine.receive(from: &decoder, at: .zero, into: &actions)
        return actions.brokenRule
    }
}
