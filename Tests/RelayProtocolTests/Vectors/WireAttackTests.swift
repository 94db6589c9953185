// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import Testing

@testable import RelayProtocol

/// A relay or the network modifies or truncates the data of `docs/vectors`. Nothing is accepted as the original, and nothing traps.
@Suite struct WireAttackTests {
    /// The bytes truncated at every position, and with one bit flipped in every byte.
    private func damaged(_ bytes: [UInt8]) -> [[UInt8]] {
        bytes.indices.map { Array(bytes[..<$0]) }
            + bytes.indices.map { index in
                var changed = bytes
                changed[index] ^= 1 << (index % 8)
                return changed
            }
            + [bytes + [0], bytes + bytes]
    }

    @Test func damagedStatementsAreRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(IdentityVectors.self, "identity"))
        for vector in file.valid {
            let (key, record) = (try keys.signing(vector.signer).publicKey, vector.record.map { hex($0) })
            for bytes in damaged(hex(vector.encoded)) {
                let error = vectorError { try IdentityVectors.check(bytes, vector.kind, by: key, account: file.account, record: record) }
                #expect(error != nil, "\(vector.kind), \(vector.name): \(hex(bytes))")
            }
        }
    }

    @Test func statementOfAnotherKindIsRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(IdentityVectors.self, "identity"))
        for vector in file.valid {
            for kind in IdentityVectors.Kind.allCases where kind != vector.kind {
                let error = vectorError {
                    try IdentityVectors.check(
                        hex(vector.encoded),
                        kind,
                        by: try keys.signing(vector.signer).publicKey,
                        account: file.account,
                        record: file.record(of: "phone.identity")
                    )
                }
                #expect(error != nil, "\(vector.name) as \(kind)")
            }
        }
    }

    /// The very bytes, which their key has signed for something else.
    @Test func signatureForAnotherPurposeIsRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(IdentityVectors.self, "identity"))
        for vector in file.valid {
            let (key, record) = (try keys.signing(vector.signer), vector.record.map { hex($0) })
            for purpose in Purpose.allCases {
                let signature = try key.sign(hex(vector.body), for: purpose)
                let encoded = try (["body": .data(hex(vector.body)), "signature": .data(signature)] as ValueSet).encodedBytes()
                let error = vectorError {
                    try IdentityVectors.check(encoded, vector.kind, by: key.publicKey, account: file.account, record: record)
                }
                #expect((error == nil) == (purpose.rawValue == vector.purpose), "\(vector.name) for \(purpose)")
            }
        }
    }

    @Test func damagedJoinLinksNeverHoldIncompleteIDs() throws {
        for vector in try VectorFolder.read(InvitationVectors.self, "invitations").invitations {
            let text = Array(vector.link.utf8)
            for bytes in damaged(text) {
                // A modified link may contain another id, but never an incomplete one.
                guard let link = try? JoinLink(parsing: String(decoding: bytes, as: UTF8.self)) else { continue }
                #expect(link.relay.description.utf8.count == 52)
                #expect(link.by == nil || link.proof != nil, "\(link)")
                #expect(try JoinLink(parsing: link.text) == link)
            }
        }
    }

    @Test func damagedFramesDoNotTrapAndTruncatedFramesAreRejected() throws {
        for vector in try VectorFolder.read(ControlVectors.self, "control").valid {
            let frame = Array(vector.frame.utf8)
            // Not at every byte, because the frames are long and similar.
            for count in stride(from: 0, to: frame.count, by: 7) {
                #expect(ControlVectors.judge(Array(frame[..<count]), from: vector.from)?.closes == 1007, "\(vector.name), \(count)")
            }
            for index in stride(from: 0, to: frame.count, by: 3) {
                var changed = frame
                changed[index] ^= 1 << (index % 8)
                _ = ControlVectors.judge(changed, from: vector.from)
            }
        }
    }

    @Test func damagedJoiningIsRejected() throws {
        let file = try VectorFolder.read(ControlVectors.self, "control")
        let frame = try #require(file.valid.first { $0.frame.contains(#""joining""#) }).frame
        let id = try VectorFolder.keys().key("pc.identity").id
        let changes = [
            (#""2001:db8::1""#, #""""#), (#""2001:db8::1""#, #""1""#), (#""2001:db8::1""#, #""a\u001b[2J""#),
            (#""2001:db8::1""#, #""a b""#),
            (#""2001:db8::1""#, #""\u202e::1""#), (#""2001:db8::1""#, "\"" + String(repeating: "1", count: 65) + "\""),
            (#""2001:db8::1""#, "7"),
            (#""invitedBy":"\#(id)""#, #""invitedBy":"short""#), (#""invitedBy":"\#(id)""#, #""invitedBy":7"#),
            (#""joining":{"time":1793000000000"#, #""joining":{"time":-1"#), (#""joining":{"time":1793000000000,"#, #""joining":{"#),
        ]
        for (from, to) in changes {
            let changed = frame.replacingOccurrences(of: from, with: to)
            #expect(changed != frame, "\(from)")
            #expect(ControlVectors.judge(Array(changed.utf8), from: .relay)?.closes == 1007, "\(to)")
        }
    }

    @Test func damagedCommandsReceiptsAndRepliesAreRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(CommandVectors.self, "commands"))
        let identities = try VectorFolder.read(IdentityVectors.self, "identity")
        let sender = try Signed<EndpointRecord>(verifying: identities.record(of: file.sender)).payload
        let target = try Signed<EndpointRecord>(verifying: identities.record(of: file.target)).payload
        var pieces = file.commands.map { CommandVectors.Refused(name: $0.name, kind: .command, encoded: $0.encoded, error: "") }
        for receipt in file.receipts.prefix(2) {
            let reply = receipt.reply?.encoded
            pieces.append(
                .init(name: receipt.name, kind: .receipt, command: receipt.command, encoded: receipt.encoded, reply: reply, error: "")
            )
            if let reply { pieces.append(.init(name: receipt.name, kind: .reply, command: receipt.command, encoded: reply, error: "")) }
        }
        for piece in pieces {
            #expect(vectorError { try file.check(piece, keys, sender: sender, target: target) } == nil, "\(piece.name)")
            for bytes in damaged(hex(piece.encoded)) {
                var changed = piece
                changed.encoded = hex(bytes)
                #expect(
                    vectorError { try file.check(changed, keys, sender: sender, target: target) } != nil,
                    "\(piece.name): \(hex(bytes))"
                )
            }
            // A receipt holds for its reply alone.
            guard piece.kind == .receipt, let reply = piece.reply else { continue }
            for other in damaged(hex(reply)).map({ Optional(hex($0)) }) + [nil] {
                var changed = piece
                changed.reply = other
                let error = vectorError { try file.check(changed, keys, sender: sender, target: target) }
                #expect(error != nil, "\(piece.name), with the reply \(other ?? "nil")")
            }
        }
    }
}
