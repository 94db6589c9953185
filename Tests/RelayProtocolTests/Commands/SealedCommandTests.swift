// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct SealedCommandTests {
    private let sender = TestEndpoint()
    private let target = TestEndpoint()
    private let relay = RelayID(P256SigningKey().publicKey)
    private let now: Int64 = 1_793_000_000_000

    private var recipient: SealedCommand.Recipient { .init(account: "account-1", relay: relay, endpoint: target.id) }

    private func header(kind: CommandHeader.Kind = .launch, change: (inout CommandHeader) -> Void = { _ in }) -> CommandHeader {
        var header = CommandHeader(
            id: CommandIDGenerator.first(now: UInt64(now)),
            account: "account-1",
            relay: relay,
            sender: sender.id,
            target: target.id,
            senderApp: "com.example.phone",
            targetApp: "com.example.player",
            keyID: target.agreementKey.publicKey.keyID,
            kind: kind,
            number: 1,
            created: now,
            expires: now + 300_000
        )
        change(&header)
        return header
    }

    private var launch: CommandBody {
        get throws {
            .launch(
                .init(uri: try LaunchURI("https://films.example/42"), fallbackURI: try LaunchURI("https://a.b"), preferredAppIDs: ["x"])
            )
        }
    }

    private func seal(_ body: CommandBody? = nil, _ header: CommandHeader? = nil) throws -> SealedCommand {
        try SealedCommand(
            try body ?? launch,
            header: header ?? self.header(),
            target: target.agreementKey.publicKey,
            key: sender.identityKey
        )
    }

    /// Decodes bytes from the relay as the target does.
    private func take(_ encoded: [UInt8]) throws -> CommandBody {
        let command = try SealedCommand(decoding: encoded)
        try command.verify(for: recipient, from: sender.record(), now: now)
        return try command.open(with: [target.agreementKey])
    }

    /// The manual decoder of the header agrees with its `Codable` form.
    @Test func manualHeaderDecoderMatchesCodable() throws {
        let trace = TraceContext(rawValue: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        let whole = try ValueSetEncoder().encode(header { $0.trace = trace })
        #expect(whole["trace"]?.string == trace?.rawValue)
        let others: [ValueSet.Value?] = [
            nil, .string(""), .string("message"), .string(sender.id.description), .int(-1), .int(7), .uint(.max), .double(2), .bool(true),
            .data([1]), .valueSet([:]),
        ]
        var read = 0
        for key in whole.keys + ["other"] {
            for other in others {
                var set = whole
                set[key] = other
                let byHand = try? CommandHeader(decoding: set)
                #expect(byHand == (try? ValueSetDecoder().decode(CommandHeader.self, from: set)), "\(key): \(other as Any)")
                if byHand != nil { read += 1 }
            }
        }
        // Headers with an unknown key decode, and so do some with another value of the right type.
        #expect(read > others.count)
    }

    @Test func bothKindsRoundTrip() throws {
        #expect(try take(seal().encoded) == launch)
        let message = CommandBody.message(service: "photos", ["Type": "list", "Since": .date(Date(timeIntervalSince1970: 1))])
        #expect(try take(seal(message, header(kind: .message)).encoded) == message)
        let command = try seal()
        #expect(try SealedCommand(decoding: command.encoded) == command)
        #expect(command.header == header())
    }

    @Test func encodedCommandHidesItsContent() throws {
        let encoded = try seal().encoded
        #expect(Data(encoded).range(of: Data("films.example".utf8)) == nil)
        #expect(Data(encoded).range(of: Data("com.example.player".utf8)) != nil)
    }

    @Test func changedBytesAreRejected() throws {
        let encoded = try seal().encoded
        // Flipping every bit would take half a million public-key operations, so one bit of every byte is flipped.
        for index in encoded.indices {
            var changed = encoded
            changed[index] ^= 1 << (index % 8)
            #expect(throws: CommandError.self, "byte \(index)") { try take(changed) }
        }
        #expect(throws: CommandError.self) { try take(encoded + [0]) }
        #expect(throws: CommandError.self) { try take(Array(encoded.dropLast())) }
    }

    @Test func bodyIsBoundToItsHeader() throws {
        // The same ciphertext under another signed header: the associated data of HPKE must not match.
        let original = try ValueSet(decoding: try seal().encoded)
        let other = try ValueSet(decoding: try seal(nil, header { $0.number = 2 }).encoded)
        let headerBytes = try #require(other["header"]?.data)
        let key = try #require(original["key"]?.data)
        let body = try #require(original["body"]?.data)
        let forged: ValueSet = [
            "header": .data(headerBytes), "key": .data(key), "body": .data(body),
            "signature": .data(try sender.identityKey.sign(headerBytes + key + body, for: .command)),
        ]
        #expect(error(of: CommandError.self) { try take(try forged.encodedBytes()) } == .cannotOpen)
    }

    @Test func eachWrongHeaderFieldHasItsOwnError() throws {
        func rejection(_ change: (inout CommandHeader) -> Void) -> CommandError? {
            error(of: CommandError.self) { try take(seal(nil, header(change: change)).encoded) }
        }
        #expect(rejection { _ in } == nil)
        #expect(rejection { $0.account = "account-2" } == .wrongAccount)
        #expect(rejection { $0.relay = RelayID(P256SigningKey().publicKey) } == .wrongRelay)
        #expect(rejection { $0.target = TestEndpoint().id } == .wrongTarget)
        #expect(rejection { ($0.created, $0.expires) = (now - 1, now) } == .expired)
        #expect(rejection { $0.expires = now + 1 } == nil)
        #expect(rejection { $0.expires = $0.created } == .malformed)
        #expect(rejection { $0.expires = $0.created + CommandPeriod.maximumLife } == nil)
        #expect(rejection { $0.expires = $0.created + CommandPeriod.maximumLife + 1 } == .livesTooLong)
        #expect(rejection { $0.created = .min } == .malformed)
        #expect(rejection { $0.number = 0 } == .malformed)
        #expect(rejection { $0.number = 1 << 53 } == .malformed)
        #expect(rejection { $0.suite = 2 } == .unknownSuite(2))
        #expect(rejection { $0.targetApp = "" } == .malformed)
        #expect(rejection { $0.senderApp = "a\u{1}" } == .malformed)
    }

    /// Such a command is well formed, so that the relay can read it and refuse it with a specific code.
    @Test func tooLongLivedCommandIsDecodedAndRejected() throws {
        let header = header { $0.expires = $0.created + CommandPeriod.maximumLife + 1 }
        let headerBytes = try ValueSetEncoder().encode(header).encodedBytes()
        let (key, body) = try target.agreementKey.publicKey.seal(
            try launch.encodedBytes(),
            info: Purpose.command.bytes,
            associatedData: headerBytes
        )
        let envelope: ValueSet = [
            "header": .data(headerBytes), "key": .data(key), "body": .data(body),
            "signature": .data(try sender.identityKey.sign(headerBytes + key + body, for: .command)),
        ]
        let command = try SealedCommand(decoding: try envelope.encodedBytes())
        #expect(error(of: CommandError.self) { try command.verify(for: recipient, from: sender.record(), now: now) } == .livesTooLong)
        let rejection = error(of: CommandRejection.self) {
            try CommandAdmission(databaseBegan: 0).check(
                command.descriptor,
                again: false,
                now: now,
                targetIsKnown: true,
                targetIsRevoked: false,
                highestNumber: nil,
                mailbox: MailboxUse(),
                repliesWaiting: MailboxUse()
            )
        }
        #expect(rejection == CommandRejection(.livesTooLong, mayHaveRun: false))
    }

    @Test func otherSenderIsRejected() throws {
        let other = TestEndpoint()
        let command = try seal()
        #expect(error(of: CommandError.self) { try command.verify(for: recipient, from: other.record(), now: now) } == .wrongSender)
        var foreignSender = sender
        foreignSender.account = "account-2"
        #expect(
            error(of: CommandError.self) { try command.verify(for: recipient, from: foreignSender.record(), now: now) } == .wrongAccount
        )
        // A signature of another key under the sender's id.
        var envelope = try ValueSet(decoding: command.encoded)
        envelope["signature"] = .data([UInt8](repeating: 1, count: 64))
        #expect(error(of: CommandError.self) { try take(try envelope.encodedBytes()) } == .badSignature)
        #expect(
            error(of: CommandError.self) {
                try SealedCommand(launch, header: header(), target: target.agreementKey.publicKey, key: other.identityKey)
            } != nil
        )
    }

    @Test func onlyTheKeyOfTheTargetOpensACommand() throws {
        let command = try seal()
        #expect(error(of: CommandError.self) { try command.open(with: []) } == .unknownKey)
        #expect(error(of: CommandError.self) { try command.open(with: [P256AgreementKey()]) } == .unknownKey)
        // After a rotation, the old key still opens commands sealed for it.
        #expect(try command.open(with: [P256AgreementKey(), target.agreementKey]) == launch)
    }

    @Test func sizesAreLimited() throws {
        let large = CommandBody.message(service: "photos", ["d": .data([UInt8](repeating: 7, count: 256 << 10))])
        guard case .limitExceeded(let exceeded) = error(of: CommandError.self, from: { try seal(large, header(kind: .message)) }) else {
            Issue.record("a command over the limit was sealed")
            return
        }
        #expect(exceeded.limit == .commandBytes)
        #expect(error(of: CommandError.self) { try SealedCommand(decoding: [UInt8](repeating: 0, count: 256 << 10 + 1)) } != .malformed)
    }

    @Test func malformedBodyIsRejected() throws {
        let bodies: [(ValueSet, CommandHeader.Kind)] = [
            (["uri": "no scheme"], .launch), ([:], .launch), (["uri": 5], .launch), (["message": [:]], .message),
            (["service": "x"], .message), (["service": "", "message": [:]], .message),
        ]
        for (body, kind) in bodies {
            #expect(throws: CommandError.malformedBody) {
                try CommandBody(decoding: try body.encodedBytes(), kind: kind, limits: Limits())
            }
        }
    }

    @Test func receiptIsBoundToItsCommandAndReply() throws {
        let command = try seal()
        let reply = try SealedReply(["Answer": 42], to: command, sender: sender.agreementKey.publicKey)
        let receipt = try Signed(
            CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply.encoded, time: now),
            key: target.identityKey
        )
        func check(
            _ encoded: [UInt8],
            _ command: SealedCommand,
            _ reply: SealedReply?,
            from endpoint: TestEndpoint
        ) throws -> Signed<CommandReceipt> {
            try Signed<CommandReceipt>(verifying: encoded, for: command.descriptor, from: endpoint.record(), reply: reply)
        }
        #expect(try check(receipt.encoded, command, reply, from: target).payload.outcome == .succeeded)
        #expect(try reply.open(command, with: [sender.agreementKey]) == ["Answer": 42])

        let other = try seal(nil, header { $0.number = 2 })
        #expect(error(of: CommandError.self) { try check(receipt.encoded, other, reply, from: target) } == .wrongCommand)
        #expect(error(of: CommandError.self) { try check(receipt.encoded, command, nil, from: target) } == .wrongCommand)
        #expect(error(of: CommandError.self) { try check(receipt.encoded, command, reply, from: sender) } == .badSignature)
        let byOther = try Signed(
            CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply.encoded, time: now),
            key: sender.identityKey
        )
        #expect(error(of: CommandError.self) { try check(byOther.encoded, command, reply, from: sender) } == .wrongTarget)
        #expect(error(of: CommandError.self) { try reply.open(other, with: [sender.agreementKey]) } == .cannotOpen)
        #expect(error(of: CommandError.self) { try reply.open(command, with: [target.agreementKey]) } == .unknownKey)
        for index in receipt.encoded.indices {
            var changed = receipt.encoded
            changed[index] ^= 1 << (index % 8)
            #expect(throws: CommandError.self, "byte \(index)") { try check(changed, command, reply, from: target) }
        }
        for index in reply.encoded.indices {
            var changed = reply.encoded
            changed[index] ^= 1 << (index % 8)
            #expect(throws: CommandError.self, "byte \(index)") {
                let changed = try SealedReply(decoding: changed)
                _ = try check(receipt.encoded, command, changed, from: target)
                _ = try changed.open(command, with: [sender.agreementKey])
            }
        }
    }

    /// The receipt contains the digest of the reply, so the target attests the outcome whether the reply can be opened or not.
    @Test func unreadableReplyKeepsTheOutcome() throws {
        let command = try seal()
        // Sealed for a key that the sender does not have.
        let reply = try SealedReply(["Answer": 42], to: command, sender: TestEndpoint().agreementKey.publicKey)
        let receipt = try Signed(
            CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply.encoded, time: now),
            key: target.identityKey
        ).encoded
        let final = CommandFinal(receipt: receipt, reply: reply.encoded, of: command.descriptor, from: try target.record())
        #expect(final == CommandFinal(outcome: .succeeded, receipt: receipt, reply: reply.encoded))
        #expect(error(of: CommandError.self) { try reply.open(command, with: [sender.agreementKey]) } == .unknownKey)
    }

    @Test func invalidReceiptMakesTheOutcomeIndeterminate() throws {
        let command = try seal()
        let other = try seal(nil, header { $0.number = 2 })
        let reply = try SealedReply(["Answer": 42], to: command, sender: sender.agreementKey.publicKey).encoded
        func receipt(of command: SealedCommand, by endpoint: TestEndpoint) throws -> [UInt8] {
            let receipt = CommandReceipt(for: command.descriptor, outcome: .declined, reply: reply, time: now)
            return try Signed(receipt, key: endpoint.identityKey).encoded
        }
        func final(_ receipt: [UInt8], _ reply: [UInt8]?) throws -> CommandFinal? {
            CommandFinal(receipt: receipt, reply: reply, of: command.descriptor, from: try target.record())
        }
        let good = try receipt(of: command, by: target)
        #expect(try final(good, reply) == CommandFinal(outcome: .declined, receipt: good, reply: reply))
        let unknown = CommandFinal(attestedByRelay: .indeterminate(.targetLost))
        #expect(try final(receipt(of: command, by: sender), reply) == unknown)
        #expect(try final(receipt(of: other, by: target), reply) == unknown)
        #expect(try final(good, nil) == unknown)
        #expect(try final(good, [1]) == unknown)
        #expect(try final([1], reply) == unknown)
        // A receipt for earlier bytes of the same command says nothing.
        let earlier = CommandFinal(
            receipt: try receipt(of: other, by: target),
            reply: reply,
            of: command.descriptor,
            isSignedAgain: true,
            from: try target.record()
        )
        #expect(earlier == nil)
        // The sender accepts it as the final outcome and acknowledges it.
        var row = SentCommand(restoring: command.descriptor, state: .accepted(.delivered), cancelRequested: false, signings: 1)
        #expect(row.ended(unknown, receiptIsValid: false).last == .acknowledge)
        #expect(row.state == .final(unknown))
    }

    @Test(
        arguments: [
            .succeeded, .declined, .declined(reason: "too many"), .unsupported, .failed(reason: "no display"), .expired, .cancelled,
            .indeterminate(.interrupted), .indeterminate(.forgotten),
            .indeterminate(.timedOut), .indeterminate(.targetLost),
        ] as [CommandOutcome]
    )
    func everyOutcomeRoundTrips(_ outcome: CommandOutcome) throws {
        let command = try seal()
        let receipt = try Signed(CommandReceipt(for: command.descriptor, outcome: outcome, time: now), key: target.identityKey)
        let read = try Signed<CommandReceipt>(verifying: receipt.encoded, for: command.descriptor, from: target.record(), reply: nil)
        #expect(read.payload.outcome == outcome)
        #expect(read.payload.time == now)
    }

    @Test func outcomeReasonIsBounded() throws {
        let command = try seal()
        let long = CommandReceipt(for: command.descriptor, outcome: .failed(reason: String(repeating: "x", count: 1_025)), time: now)
        #expect(throws: RecordError.self) { try Signed(long, key: target.identityKey) }
    }
}
