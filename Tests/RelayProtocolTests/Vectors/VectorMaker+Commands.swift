// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

extension VectorMaker {
    private func header(_ kind: CommandHeader.Kind, number: UInt64, change: (inout CommandHeader) throws -> Void = { _ in }) throws
        -> CommandHeader
    {
        var header = CommandHeader(
            id: try #require(CommandID("01a17776-8e00-7000-8000-00000000000\(number)")),
            account: account,
            relay: try relay,
            sender: try keys.endpoint("phone.identity"),
            target: try keys.endpoint("pc.identity"),
            senderApp: kind == .launch ? nil : "com.example.remote",
            targetApp: "com.example.player",
            keyID: try keys.agreement("pc.agreement").publicKey.keyID,
            kind: kind,
            number: number,
            created: time,
            expires: time + 300_000
        )
        try change(&header)
        return header
    }

    private func seal(_ plain: [UInt8], to recipient: String, _ ephemeral: String, _ purpose: Purpose, _ data: [UInt8]) throws
        -> CommandVectors.Seal
    {
        let (key, ciphertext) = try FixedSealing.seal(
            plain,
            to: try keys.agreement(recipient).publicKey,
            ephemeral: try keys.ephemeral(ephemeral),
            info: purpose.bytes,
            associatedData: data
        )
        return .init(
            recipient: recipient,
            ephemeral: ephemeral,
            info: purpose.rawValue,
            associatedData: hex(data),
            plain: hex(plain),
            key: hex(key),
            ciphertext: hex(ciphertext)
        )
    }

    private func blob(
        _ headerBytes: [UInt8],
        _ seal: CommandVectors.Seal,
        by signer: String = "phone.identity",
        for purpose: Purpose = .command,
        change: ((inout ValueSet) -> Void)? = nil
    ) throws -> [UInt8] {
        let signature = try keys.signing(signer).sign(headerBytes + hex(seal.key) + hex(seal.ciphertext), for: purpose)
        var envelope: ValueSet = [
            "header": .data(headerBytes), "key": .data(hex(seal.key)), "body": .data(hex(seal.ciphertext)), "signature": .data(signature),
        ]
        change?(&envelope)
        return try envelope.encodedBytes()
    }

    private func command(_ name: String, _ header: CommandHeader, _ body: CommandBody, _ ephemeral: String) throws -> CommandVectors.Command
    {
        let headerBytes = try ValueSetEncoder().encode(header).encodedBytes()
        let plain = try body.encodedBytes()
        let seal = try seal(plain, to: "pc.agreement", ephemeral, .command, headerBytes)
        let encoded = try blob(headerBytes, seal)
        return .init(
            name: name,
            header: try VectorJSON(encoding: header),
            headerBytes: hex(headerBytes),
            body: try VectorJSON(try ValueSet(decoding: plain)),
            seal: seal,
            signature: hex(try ValueSet(decoding: encoded)["signature"]?.data ?? []),
            encoded: hex(encoded),
            digest: hex(Digest256(hashing: encoded).bytes)
        )
    }

    private func reply(
        _ message: ValueSet,
        to command: [UInt8],
        recipient: String = "phone.agreement",
        _ ephemeral: String = "ephemeral.reply"
    ) throws -> CommandVectors.Reply {
        let seal = try seal(try message.encodedBytes(), to: recipient, ephemeral, .reply, Digest256(hashing: command).bytes)
        let keyID = try keys.agreement(recipient).publicKey.keyID
        let encoded = try (["keyID": .data(keyID), "key": .data(hex(seal.key)), "body": .data(hex(seal.ciphertext))] as ValueSet)
            .encodedBytes()
        return .init(message: try VectorJSON(message), seal: seal, encoded: hex(encoded), digest: hex(Digest256(hashing: encoded).bytes))
    }

    func commands() throws -> CommandVectors {
        let launch = CommandBody.launch(
            .init(
                uri: try LaunchURI("https://films.example/42?t=1200"),
                fallbackURI: try LaunchURI("https://web.example/"),
                preferredAppIDs: ["com.example.player"]
            )
        )
        let message = CommandBody.message(
            service: "photos",
            ["Type": "list", "Since": .date(.init(timeIntervalSince1970: 1_792_000_000)), "Thumb": .data([1, 2, 3])]
        )
        let commands = [
            try command("launch", try header(.launch, number: 1), launch, "ephemeral.launch"),
            try command("message", try header(.message, number: 2), message, "ephemeral.message"),
            try command("with a higher number", try header(.message, number: 3) { $0.firstNumber = 2 }, message, "ephemeral.message"),
        ]
        let blobs = commands.map { hex($0.encoded) }
        let answer = try reply(["Photos": ["a", "b"], "Count": 2], to: blobs[1])
        func receipt(
            _ name: String,
            _ index: Int,
            _ outcome: CommandOutcome,
            _ reply: CommandVectors.Reply? = nil,
            highest: UInt64? = nil
        ) throws -> CommandVectors.Receipt {
            let descriptor = try SealedCommand(decoding: blobs[index]).descriptor
            let payload = CommandReceipt(
                for: descriptor,
                outcome: outcome,
                highest: highest,
                reply: reply.map { hex($0.encoded) },
                time: time + 1_000
            )
            let signed = try Signed(payload, key: try keys.signing("pc.identity"))
            let envelope = try ValueSet(decoding: signed.encoded)
            return .init(
                name: name,
                command: commands[index].name,
                fields: try VectorJSON(encoding: payload),
                body: hex(envelope["body"]?.data ?? []),
                signature: hex(envelope["signature"]?.data ?? []),
                encoded: hex(signed.encoded),
                reply: reply
            )
        }
        let receipts = [
            try receipt("launched", 0, .succeeded), try receipt("answered", 1, .succeeded, answer), try receipt("declined", 0, .declined),
            try receipt("declined for a reason", 0, .declined(reason: "not while a film runs ☹")),
            try receipt("unsupported", 0, .unsupported), try receipt("failed", 0, .failed(reason: "no display ☹")),
            try receipt("expired", 0, .expired), try receipt("cancelled", 0, .cancelled),
            try receipt("interrupted", 0, .indeterminate(.interrupted)), try receipt("timed out", 0, .indeterminate(.timedOut)),
            try receipt("number passed, has not run", 0, .failed(reason: "later commands were handled"), highest: 1_792_000_000_000),
            try receipt("number passed, may have run", 1, .indeterminate(.forgotten), highest: 1_792_000_000_000),
            try receipt("forgotten", 0, .indeterminate(.forgotten)),
        ]
        var vectors = CommandVectors(
            account: account,
            relay: try relay.description,
            sender: "phone.identity",
            target: "pc.identity",
            time: time,
            commands: commands,
            receipts: receipts,
            refused: []
        )
        vectors.refused = try (refusedCommands(commands, launch) + refusedReceipts(commands, receipts, answer)).map { refused in
            var refused = refused
            let error = vectorError { try vectors.check(refused, keys, sender: record("phone"), target: record("pc")) }
            refused.error = try #require(error, "\(refused.name)")
            return refused
        }
        return vectors
    }

    private func refusedCommands(_ commands: [CommandVectors.Command], _ launch: CommandBody) throws -> [CommandVectors.Refused] {
        let (good, seal) = (hex(commands[0].encoded), commands[0].seal)
        let headerBytes = hex(commands[0].headerBytes)
        /// A valid command with a modified header, content, purpose or signer.
        func made(
            _ change: (inout CommandHeader) throws -> Void,
            plain: [UInt8]? = nil,
            purpose: Purpose = .command,
            by signer: String = "phone.identity"
        ) throws -> [UInt8] {
            let headerBytes = try ValueSetEncoder().encode(try header(.launch, number: 3, change: change)).encodedBytes()
            let seal = try self.seal(try plain ?? launch.encodedBytes(), to: "pc.agreement", "ephemeral.refused", purpose, headerBytes)
            return try blob(headerBytes, seal, by: signer)
        }
        let otherHeader = try ValueSetEncoder().encode(try header(.launch, number: 3)).encodedBytes()
        let otherForm: [UInt8] = [0xB8, headerBytes[0] & 0x1F] + Array(headerBytes.dropFirst())
        let other = try keys.endpoint("other.identity")
        let cases: [(String, [UInt8])] = [
            ("signed for another purpose", try blob(headerBytes, seal, for: .receipt)),
            ("signed by another key", try blob(headerBytes, seal, by: "other.identity")),
            ("a bit of the ciphertext flipped", try blob(headerBytes, seal) { $0["body"] = .data(flipped(hex(seal.ciphertext), at: 0)) }),
            ("under another header, signed anew", try blob(otherHeader, seal)),
            ("a byte behind it", good + [0]),
            ("cut short", Array(good.dropLast())),
            ("a further key", try blob(headerBytes, seal) { $0["more"] = 1 }),
            ("without a body", try blob(headerBytes, seal) { $0["body"] = nil }),
            ("the header's map in another form", try blob(otherForm, seal)),
            ("of suite 2", try made { $0.suite = 2 }),
            ("for another account", try made { $0.account = "account-2" }),
            ("through another relay", try made { $0.relay = RelayID(try keys.signing("otherRelay").publicKey) }),
            ("for another endpoint", try made { $0.target = other }),
            ("of another sender", try made { $0.sender = other }),
            ("for an unknown key", try made { $0.keyID[0] ^= 1 }),
            ("sealed as a reply", try made({ _ in }, purpose: .reply)),
            ("with a body that is no launch", try made({ _ in }, plain: try (["uri": 5] as ValueSet).encodedBytes())),
            ("with a URI without a scheme", try made({ _ in }, plain: try (["uri": "films"] as ValueSet).encodedBytes())),
            ("with a body that has a byte behind it", try made({ _ in }, plain: try launch.encodedBytes() + [0])),
            ("whose time is over", try made { ($0.created, $0.expires) = (time - 300_000, time) }),
            ("that expires when it is created", try made { $0.expires = $0.created }),
            ("that lives too long", try made { $0.expires = $0.created + CommandPeriod.maximumLife + 1 }),
            ("of number 0", try made { $0.number = 0 }),
            ("whose first number is its number", try made { $0.firstNumber = $0.number }),
            ("whose first number is 0", try made { $0.firstNumber = 0 }),
        ]
        return cases.map { .init(name: $0, kind: .command, encoded: hex($1), error: "") }
    }

    private func refusedReceipts(
        _ commands: [CommandVectors.Command],
        _ receipts: [CommandVectors.Receipt],
        _ answer: CommandVectors.Reply
    ) throws -> [CommandVectors.Refused] {
        let good = try #require(receipts.first { $0.reply != nil })
        let body = hex(good.body)
        let messages = commands.map { hex($0.encoded) }
        func changed(_ change: (inout ValueSet) throws -> Void) throws -> String {
            var set = try ValueSet(decoding: body)
            try change(&set)
            return hex(try envelope(try set.encodedBytes(), by: "pc.identity", for: .receipt))
        }
        let another = try reply(["Count": 3], to: messages[1], "ephemeral.refused")
        let receiptCases: [(String, String, String, String?)] = [
            ("signed for another purpose", "message", hex(try envelope(body, by: "pc.identity", for: .command)), answer.encoded),
            ("signed by the sender", "message", hex(try envelope(body, by: "phone.identity", for: .receipt)), answer.encoded),
            ("a byte behind it", "message", good.encoded + "00", answer.encoded),
            ("of another command", "launch", good.encoded, answer.encoded),
            ("without the reply that it names", "message", good.encoded, nil),
            ("with another reply", "message", good.encoded, another.encoded),
            (
                "of another sender", "message", try changed { $0["sender"] = .string(try keys.endpoint("other.identity").description) },
                answer.encoded
            ),
            (
                "of another target", "message", try changed { $0["target"] = .string(try keys.endpoint("other.identity").description) },
                answer.encoded
            ),
            ("of an unknown outcome", "message", try changed { $0["outcome"] = ["outcome": "perhaps"] }, answer.encoded),
            ("failed without a reason", "message", try changed { $0["outcome"] = ["outcome": "failed"] }, answer.encoded),
            (
                "declined for a reason that is no text", "message", try changed { $0["outcome"] = ["outcome": "declined", "reason": 1] },
                answer.encoded
            ),
            (
                "declined for a reason of 1025 bytes", "message",
                try changed { $0["outcome"] = ["outcome": "declined", "reason": .string(String(repeating: "x", count: 1_025))] },
                answer.encoded
            ),
            ("with the highest number 0", "message", try changed { $0["highest"] = 0 }, answer.encoded),
            ("with a digest of 31 bytes", "message", try changed { $0["command"] = .data(Array(repeating: 1, count: 31)) }, answer.encoded),
        ]
        func replied(_ change: (inout ValueSet) -> Void) throws -> String {
            var set = try ValueSet(decoding: hex(answer.encoded))
            change(&set)
            return hex(try set.encodedBytes())
        }
        let replyCases: [(String, String, String)] = [
            ("to another command", "launch", answer.encoded),
            (
                "for the key of another endpoint", "message",
                try reply([:], to: messages[1], recipient: "other.agreement", "ephemeral.refused").encoded
            ),
            ("a bit of the ciphertext flipped", "message", try replied { $0["body"] = .data(flipped(hex(answer.seal.ciphertext), at: 0)) }),
            ("a byte behind it", "message", answer.encoded + "00"),
            ("a further key", "message", try replied { $0["more"] = 1 }),
            ("a key of 64 bytes", "message", try replied { $0["key"] = .data(Array(hex(answer.seal.key).dropLast())) }),
        ]
        return receiptCases.map { .init(name: $0, kind: .receipt, command: $1, encoded: $2, reply: $3, error: "") }
            + replyCases.map { .init(name: $0, kind: .reply, command: $1, encoded: $2, error: "") }
    }
}
