// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import NIOCore
import Testing

@testable import RelayProtocol

/// This implementation reads, writes and rejects every vector of `docs/vectors` as documented.
@Suite struct VectorTests {
    // MARK: Writing

    /// Rewrites the files: `DEVICE_RELAY_WRITE_VECTORS=1 swift test --filter RelayProtocolTests.VectorTests/write`.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_WRITE_VECTORS"] != nil, "only when the vectors are wanted anew"))
    func write() throws {
        let maker = try VectorMaker()
        let (identities, commands) = (try maker.identities(), try maker.commands())
        let hellos = try maker.hellos(identities)
        try VectorFolder.write(maker.keys, "keys")
        try VectorFolder.write(try maker.values(), "values")
        try VectorFolder.write(identities, "identity")
        try VectorFolder.write(try maker.fingerprints(), "fingerprints")
        try VectorFolder.write(try maker.nearby(), "nearby")
        try VectorFolder.write(try maker.pairing(), "pairing")
        try VectorFolder.write(try maker.invitations(), "invitations")
        try VectorFolder.write(hellos, "hello")
        try VectorFolder.write(try maker.proofs(), "dpop")
        try VectorFolder.write(commands, "commands")
        try VectorFolder.write(try maker.control(identities, hellos, commands), "control")
        try VectorFolder.write(try maker.sessions(), "session")
    }

    /// The name of each error is in a table of `README.md`, or in the table of values in `protocol.md`.
    @Test func everyErrorIsDocumented() throws {
        let values = try VectorFolder.read(ValueVectors.self, "values")
        let identities = try VectorFolder.read(IdentityVectors.self, "identity")
        var errors = Set(values.refusedCBOR.map(\.error) + values.refusedJSON.map(\.error) + identities.refused.map(\.error))
        errors.formUnion(identities.sequences.flatMap(\.steps).compactMap(\.error))
        errors.formUnion(try VectorFolder.read(InvitationVectors.self, "invitations").refusedLinks.map(\.error))
        errors.formUnion(try VectorFolder.read(PairingVectors.self, "pairing").refusedLinks.map(\.error))
        errors.formUnion(try VectorFolder.read(DPoPVectors.self, "dpop").refused.map(\.error))
        errors.formUnion(try VectorFolder.read(CommandVectors.self, "commands").refused.map(\.error))
        let pages = try ["README.md", "../protocol.md"].map {
            try String(contentsOf: VectorFolder.url.appending(path: $0), encoding: .utf8)
        }
        #expect(errors.count > 30)
        for error in errors { #expect(pages.contains { $0.contains("`\(error)`") }, "\(error)") }
    }

    // MARK: Keys and values

    @Test func keysMatchTheirScalars() throws {
        let keys = try VectorFolder.keys()
        #expect(keys.keys == (try KeyVectors.made(VectorMaker.names)).keys)
    }

    @Test func valuesHaveOneEncoding() throws {
        let file = try VectorFolder.read(ValueVectors.self, "values")
        for vector in file.valid {
            let read = try ValueSet(decoding: hex(vector.cbor))
            #expect(hex(try read.encodedBytes()) == vector.cbor, "\(vector.name)")
            #expect(try read.json() == vector.json, "\(vector.name)")
            #expect(hex(try ValueSet(json: vector.json).encodedBytes()) == vector.cbor, "\(vector.name)")
        }
        for vector in file.refusedCBOR {
            #expect(vectorError { _ = try ValueSet(decoding: hex(vector.cbor)) } == vector.error, "\(vector.name)")
        }
        for vector in file.refusedJSON {
            #expect(vectorError { _ = try ValueSet(json: vector.json) } == vector.error, "\(vector.name)")
        }
    }

    @Test func everyKindOfValueOccurs() throws {
        var kinds: Set<String> = []
        func visit(_ value: ValueSet.Value) {
            switch value {
            case .string: kinds.insert("string")
            case .bool: kinds.insert("bool")
            case .int: kinds.insert("int")
            case .uint: kinds.insert("uint")
            case .double: kinds.insert("double")
            case .date: kinds.insert("date")
            case .uuid: kinds.insert("uuid")
            case .data: kinds.insert("data")
            case .array(let values):
                kinds.insert("array")
                values.forEach(visit)
            case .valueSet(let set):
                kinds.insert("valueSet")
                set.keys.forEach { set[$0].map(visit) }
            }
        }
        let file = try VectorFolder.read(ValueVectors.self, "values")
        for vector in file.valid { visit(.valueSet(try ValueSet(decoding: hex(vector.cbor)))) }
        #expect(kinds.count == 10, "\(kinds)")
        // All errors of the CBOR decoder except `tooManyValues`, which needs two million values.
        #expect(Set(file.refusedCBOR.map(\.error)).count == 16)
    }

    // MARK: Signed statements

    @Test func everyPurposeOccurs() throws {
        let identities = try VectorFolder.read(IdentityVectors.self, "identity")
        let commands = try VectorFolder.read(CommandVectors.self, "commands")
        var purposes = Set(
            identities.valid.map(\.purpose) + commands.commands.map(\.seal.info) + commands.receipts.compactMap(\.reply?.seal.info)
        )
        #expect(identities.valid.contains { $0.membership != nil })
        purposes.insert(Purpose.systemMembership.rawValue)
        if !commands.receipts.isEmpty { purposes.insert(Purpose.receipt.rawValue) }
        if !(try VectorFolder.read(HelloVectors.self, "hello")).valid.isEmpty { purposes.insert(Purpose.hello.rawValue) }
        let invitations = try VectorFolder.read(InvitationVectors.self, "invitations").invitations
        if invitations.allSatisfy({ hex($0.statement).starts(with: Purpose.invitation.bytes + [0]) }) {
            purposes.insert(Purpose.invitation.rawValue)
        }
        let fingerprints = try VectorFolder.read(FingerprintVectors.self, "fingerprints").fingerprints
        if fingerprints.allSatisfy({ hex($0.statement).starts(with: Purpose.fingerprint.bytes + [0]) }) {
            purposes.insert(Purpose.fingerprint.rawValue)
        }
        if !(try VectorFolder.read(NearbyVectors.self, "nearby")).pairs.isEmpty {
            purposes.formUnion([Purpose.nearbyTag, .nearbyKnock, .nearbyCandidates].map(\.rawValue))
        }
        let pairing = try VectorFolder.read(PairingVectors.self, "pairing")
        if !pairing.commitments.isEmpty, !pairing.proofs.isEmpty {
            purposes.formUnion([Purpose.pairingCode, .pairingSecret].map(\.rawValue))
        }
        #expect(purposes == Set(Purpose.allCases.map(\.rawValue)))
        #expect(Set(identities.valid.map(\.kind)) == Set(IdentityVectors.Kind.allCases))
    }

    @Test func signedStatementsRoundTrip() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(IdentityVectors.self, "identity"))
        for vector in file.valid {
            let (key, encoded) = (try keys.signing(vector.signer).publicKey, hex(vector.encoded))
            #expect(throws: Never.self, "\(vector.name)") {
                try IdentityVectors.check(encoded, vector.kind, by: key, account: file.account, record: vector.record.map { hex($0) })
            }
            #expect(hex(try vector.fields.valueSet.encodedBytes()) == vector.body, "\(vector.name)")
            #expect(hex(try payload(vector.kind, hex(vector.body))) == vector.body, "\(vector.name)")
            let envelope: ValueSet = ["body": .data(hex(vector.body)), "signature": .data(hex(vector.signature))]
            #expect(hex(try envelope.encodedBytes()) == vector.encoded, "\(vector.name)")
            let purpose = try #require(Purpose(rawValue: vector.purpose))
            #expect(key.isValid(hex(vector.signature), over: hex(vector.body), for: purpose), "\(vector.name)")
            guard let membership = vector.membership else { continue }
            let record = try Signed<EndpointRecord>(verifying: encoded).payload
            #expect(record.systemKey.isValid(record.systemSignature, over: hex(membership), for: .systemMembership))
        }
    }

    /// The encoded body of a payload's fields.
    private func payload(_ kind: IdentityVectors.Kind, _ body: [UInt8]) throws -> [UInt8] {
        func again<Payload: SignedPayload>(_: Payload.Type) throws -> [UInt8] {
            try ValueSetEncoder().encode(try Payload(reading: try ValueSet(decoding: body))).encodedBytes()
        }
        return switch kind {
        case .endpointRecord: try again(EndpointRecord.self)
        case .appRegistration: try again(AppRegistration.self)
        case .voucher: try again(Voucher.self)
        case .revocation: try again(Revocation.self)
        }
    }

    @Test func invalidStatementsAreRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(IdentityVectors.self, "identity"))
        for vector in file.refused {
            let error = vectorError {
                try IdentityVectors.check(
                    hex(vector.encoded),
                    vector.kind,
                    by: try keys.signing(vector.signer).publicKey,
                    account: file.account,
                    record: vector.record.map { hex($0) }
                )
            }
            #expect(error == vector.error, "\(vector.name)")
        }
        for sequence in file.sequences {
            var book = RecordBook(account: file.account)
            for (index, step) in sequence.steps.enumerated() {
                #expect(vectorError { try book.add(endpointRecord: hex(step.encoded)) } == step.error, "\(sequence.name), step \(index)")
            }
        }
    }

    @Test func fingerprintsAndCodesHaveTheseWords() throws {
        let file = try VectorFolder.read(FingerprintVectors.self, "fingerprints")
        #expect(file.fingerprints.count == 4 && file.codes.count == 5)
        var ids: [String: (EndpointID, SystemID)] = [:]
        for vector in file.fingerprints {
            let (endpoint, system) = (try EndpointID(parsing: vector.endpoint), try SystemID(parsing: vector.system))
            ids[vector.name] = (endpoint, system)
            #expect(hex(Purpose.fingerprint.statement(endpoint.digest.bytes + system.digest.bytes)) == vector.statement, "\(vector.name)")
            #expect(FingerprintWords(endpoint: endpoint, system: system).description == vector.words, "\(vector.name)")
        }
        for vector in file.codes {
            let (own, other) = (try #require(ids[vector.own]), try #require(ids[vector.other]))
            #expect(VerificationCode(own, other).description == vector.code, "\(vector.own), \(vector.other)")
        }
        // One pair decides whether ids are compared as bytes or as text.
        let orders = try file.codes.map { vector in
            let (own, other) = (try #require(ids[vector.own]).0, try #require(ids[vector.other]).0)
            return (own < other) == (own.description < other.description)
        }
        #expect(orders.contains(true) && orders.contains(false))
    }

    @Test func nearbyKeysTagsAndProofsAreTheSame() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(NearbyVectors.self, "nearby"))
        #expect(file.pairs.count == 2)
        for vector in file.pairs {
            let ids = try vector.identities.map { try keys.endpoint($0) }
            let links = try vector.links.map { try keys.link($0) }
            // Both sides derive the same.
            for own in 0..<2 {
                let shared = try PairKeys(links[own], of: ids[own], with: links[1 - own].publicKey, of: ids[1 - own])
                #expect(hex(PairKeys.salt(ids[own], ids[1 - own])) == vector.salt)
                #expect(hex(shared.tag.withUnsafeBytes { Array($0) }) == vector.tagKey)
                #expect(hex(shared.knock.withUnsafeBytes { Array($0) }) == vector.knockKey)
                #expect(hex(shared.candidates.withUnsafeBytes { Array($0) }) == vector.candidatesKey)
                for tag in vector.tags {
                    #expect(hex(shared.tag(of: try keys.endpoint(tag.advertiser), nonce: hex(tag.nonce))) == tag.tag)
                }
                for vector in vector.knocks {
                    let knock = Knock(
                        challenge: hex(vector.challenge),
                        kind: try #require(Knock.Kind(rawValue: vector.kind)),
                        nonce: hex(vector.nonce),
                        dialer: try keys.endpoint(vector.dialer),
                        listener: try keys.endpoint(vector.listener)
                    )
                    #expect(hex(knock.statement) == vector.statement)
                    #expect(shared.isValid(hex(vector.proof), for: knock))
                }
                for vector in vector.candidates {
                    let (tunnel, sender) = (try #require(TunnelID(vector.tunnel)), try keys.endpoint(vector.sender))
                    let addresses = try vector.addresses.map { try #require(IPAddress(parsing: $0.utf8)) }
                    let candidates = try #require(HostCandidates(port: vector.port, addresses: addresses))
                    #expect(hex(SealedCandidates.associatedData(tunnel, sender)) == vector.associatedData)
                    #expect(hex(try candidates.content()) == vector.content)
                    #expect(HostCandidates(content: hex(vector.content)) == candidates)
                    #expect(vector.sealed.hasPrefix(vector.nonce))
                    let sealed = SealedCandidates(Blob(hex(vector.sealed)))
                    #expect(sealed.open(for: tunnel, from: sender, with: shared) == candidates)
                }
                for vector in vector.refusedCandidates {
                    let (tunnel, sender) = (try #require(TunnelID(vector.tunnel)), try keys.endpoint(vector.sender))
                    let sealed = SealedCandidates(Blob(hex(vector.sealed)))
                    #expect(sealed.open(for: tunnel, from: sender, with: shared) == nil, "\(vector.name)")
                }
            }
        }
    }

    @Test func pairingHashesCodesAndLinksAreTheSame() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(PairingVectors.self, "pairing"))
        #expect(Set(file.commitments.map { [Int($0.role), $0.bit ? 1 : 0] }).count == 4 && file.proofs.count == 2)
        for vector in file.commitments {
            let hash = try PairingHash(caller: try keys.endpoint(vector.caller), shower: try keys.endpoint(vector.shower))
            let (role, nonce) = (try #require(PairingRole(rawValue: vector.role)), hex(vector.nonce))
            #expect(hex(hash.statement(role, round: vector.round, bit: vector.bit)) == vector.statement)
            #expect(hash.isValid(hex(vector.commitment), role, round: vector.round, bit: vector.bit, nonce: nonce))
            #expect(!hash.isValid(hex(vector.commitment), role, round: vector.round, bit: !vector.bit, nonce: nonce))
        }
        for vector in file.proofs {
            let hash = try PairingHash(caller: try keys.endpoint(vector.caller), shower: try keys.endpoint(vector.shower))
            let role = try #require(PairingRole(rawValue: vector.role))
            #expect(hex(hash.statement(role)) == vector.statement)
            #expect(hash.isValid(hex(vector.proof), role, secret: Secret(hex(vector.secret))))
        }
        for vector in file.codes {
            let code = try #require(PairingCode(parsing: vector.typed))
            #expect(code.text == vector.shown && code.roundBits.map { $0 ? "1" : "0" }.joined() == vector.bits)
        }
        for code in file.refusedCodes { #expect(PairingCode(parsing: code) == nil, "\(code)") }
        for vector in file.links {
            let link = try PairingLink(parsing: vector.link)
            #expect(link.text == vector.written && link.id.description == vector.id, "\(vector.name)")
            #expect(hex(link.secret.exposed) == vector.secret, "\(vector.name)")
            #expect(link.places.map { hex($0.address.bytes) } == vector.places.map(\.address), "\(vector.name)")
            #expect(link.places.map(\.port) == vector.places.map(\.port), "\(vector.name)")
        }
        for vector in file.refusedLinks {
            #expect(vectorError { _ = try PairingLink(parsing: vector.link) } == vector.error, "\(vector.name)")
        }
        #expect(Set(file.refusedLinks.map(\.error)).count == 8)
    }

    @Test func invitationProofsAreVerified() throws {
        let file = try VectorFolder.read(InvitationVectors.self, "invitations")
        for vector in file.invitations {
            let endpoint = try EndpointID(parsing: vector.endpoint)
            #expect(hex(Purpose.invitation.statement(endpoint.digest.bytes)) == vector.statement)
            #expect(hex(InvitationProof.make(secret: hex(vector.secret), endpoint: endpoint)) == vector.proof)
            #expect(InvitationProof.isValid(hex(vector.proof), secret: hex(vector.secret), endpoint: endpoint))
            let link = try JoinLink(parsing: vector.link)
            #expect(link.text == vector.link)
            #expect(link.origin == vector.origin && link.relay.description == vector.relay && link.invite.exposed == vector.invite)
            #expect(link.by?.description == vector.by && link.proofSecret.map { hex($0.exposed) } == vector.secret)
        }
        for vector in file.refusedProofs {
            let endpoint = try EndpointID(parsing: vector.endpoint)
            #expect(!InvitationProof.isValid(hex(vector.proof), secret: hex(vector.secret), endpoint: endpoint), "\(vector.name)")
        }
        for vector in file.refusedLinks {
            #expect(vectorError { _ = try JoinLink(parsing: vector.link) } == vector.error, "\(vector.name)")
        }
    }

    @Test func helloSignaturesAreVerified() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(HelloVectors.self, "hello"))
        func isSigned(_ vector: HelloVectors.Hello) throws -> Bool {
            let statement = HelloStatement(
                relay: try RelayID(parsing: vector.relay),
                origin: vector.origin,
                nonce: hex(vector.nonce),
                token: vector.token,
                record: hex(vector.record)
            )
            #expect(hex(try ValueSetEncoder().encode(statement).encodedBytes()) == vector.statement, "\(vector.name)")
            return statement.isSigned(hex(vector.signature), by: try keys.signing(vector.signer).publicKey)
        }
        for vector in file.valid { #expect(try isSigned(vector), "\(vector.name)") }
        for vector in file.refused { #expect(try !isSigned(vector), "\(vector.name)") }
    }

    @Test func dpopProofsAreVerified() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(DPoPVectors.self, "dpop"))
        for vector in file.valid {
            let (key, now) = (try keys.signing(vector.signer).publicKey, Milliseconds(clamping: vector.time))
            let proof = try DPoPProof(
                checking: vector.proof,
                method: vector.method,
                urls: [vector.url],
                now: now,
                accessToken: vector.accessToken
            )
            #expect(proof.key == key && key.jwkThumbprint == vector.thumbprint, "\(vector.name)")
            let signed = Base64.url.encode(vector.header.utf8) + "." + Base64.url.encode(vector.claims.utf8)
            #expect(vector.proof.hasPrefix(signed + "."), "\(vector.name)")
        }
        for vector in file.refused {
            let error = vectorError {
                _ = try DPoPProof(
                    checking: vector.proof,
                    method: vector.method,
                    urls: [vector.url],
                    now: Milliseconds(clamping: vector.time),
                    accessToken: vector.accessToken
                )
            }
            #expect(error == vector.error, "\(vector.name)")
        }
    }

    // MARK: Commands

    private func record(of signer: String) throws -> EndpointRecord {
        try Signed<EndpointRecord>(verifying: try VectorFolder.read(IdentityVectors.self, "identity").record(of: signer)).payload
    }

    private func expectSealed(_ seal: CommandVectors.Seal, _ keys: KeyVectors, _ name: String) throws {
        let recipient = try keys.agreement(seal.recipient)
        let made = try FixedSealing.seal(
            hex(seal.plain),
            to: recipient.publicKey,
            ephemeral: try keys.ephemeral(seal.ephemeral),
            info: Array(seal.info.utf8),
            associatedData: hex(seal.associatedData)
        )
        #expect(hex(made.key) == seal.key && hex(made.ciphertext) == seal.ciphertext, "\(name)")
        let opened = try recipient.open(
            hex(seal.ciphertext),
            encapsulatedKey: hex(seal.key),
            info: Array(seal.info.utf8),
            associatedData: hex(seal.associatedData)
        )
        #expect(hex(opened) == seal.plain, "\(name)")
    }

    @Test func commandsRoundTrip() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(CommandVectors.self, "commands"))
        let sender = try record(of: file.sender)
        for vector in file.commands {
            let body = try file.take(hex(vector.encoded), keys, from: sender)
            #expect(hex(try body.encodedBytes()) == vector.seal.plain, "\(vector.name)")
            #expect(hex(try vector.body.valueSet.encodedBytes()) == vector.seal.plain, "\(vector.name)")
            let header = try SealedCommand(decoding: hex(vector.encoded)).header
            #expect(hex(try ValueSetEncoder().encode(header).encodedBytes()) == vector.headerBytes, "\(vector.name)")
            #expect(hex(try vector.header.valueSet.encodedBytes()) == vector.headerBytes, "\(vector.name)")
            #expect(vector.seal.associatedData == vector.headerBytes && vector.seal.info == Purpose.command.rawValue, "\(vector.name)")
            try expectSealed(vector.seal, keys, vector.name)
            let envelope: ValueSet = [
                "header": .data(hex(vector.headerBytes)), "key": .data(hex(vector.seal.key)), "body": .data(hex(vector.seal.ciphertext)),
                "signature": .data(hex(vector.signature)),
            ]
            #expect(hex(try envelope.encodedBytes()) == vector.encoded, "\(vector.name)")
            #expect(hex(Digest256(hashing: hex(vector.encoded)).bytes) == vector.digest, "\(vector.name)")
        }
    }

    @Test func receiptsAndRepliesRoundTrip() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(CommandVectors.self, "commands"))
        let target = try record(of: file.target)
        for vector in file.receipts {
            let command = try file.blob(vector.command)
            let reply = try vector.reply.map { try SealedReply(decoding: hex($0.encoded)) }
            let receipt = try Signed<CommandReceipt>(verifying: hex(vector.encoded), for: command.descriptor, from: target, reply: reply)
            #expect(hex(try ValueSetEncoder().encode(receipt.payload).encodedBytes()) == vector.body, "\(vector.name)")
            #expect(hex(try vector.fields.valueSet.encodedBytes()) == vector.body, "\(vector.name)")
            let envelope: ValueSet = ["body": .data(hex(vector.body)), "signature": .data(hex(vector.signature))]
            #expect(hex(try envelope.encodedBytes()) == vector.encoded, "\(vector.name)")
            guard let expected = vector.reply, let reply else { continue }
            #expect(try reply.open(command, with: [try keys.agreement("phone.agreement")]) == expected.message.valueSet, "\(vector.name)")
            #expect(
                hex(reply.digest.bytes) == expected.digest && hex(command.digest.bytes) == expected.seal.associatedData,
                "\(vector.name)"
            )
            #expect(hex(try expected.message.valueSet.encodedBytes()) == expected.seal.plain, "\(vector.name)")
            try expectSealed(expected.seal, keys, vector.name)
        }
    }

    @Test func invalidCommandsReceiptsAndRepliesAreRejected() throws {
        let (keys, file) = (try VectorFolder.keys(), try VectorFolder.read(CommandVectors.self, "commands"))
        let (sender, target) = (try record(of: file.sender), try record(of: file.target))
        for vector in file.refused {
            let error = vectorError { try file.check(vector, keys, sender: sender, target: target) }
            #expect(error == vector.error, "\(vector.kind), \(vector.name)")
        }
    }

    // MARK: Channels

    @Test func controlMessagesRoundTrip() throws {
        let file = try VectorFolder.read(ControlVectors.self, "control")
        for vector in file.valid {
            let frame = ByteBuffer(string: vector.frame)
            let again: ByteBuffer
            switch vector.from {
            case .endpoint:
                guard case .message(let message) = try EndpointMessage.decode(from: frame, limits: Limits()) else {
                    Issue.record("\(vector.name) is no message")
                    continue
                }
                #expect(type(of: message.content).type == vector.type, "\(vector.name)")
                again = try message.encode()
            case .relay:
                let message = try #require(try RelayMessage.decode(from: frame, limits: Limits()), "\(vector.name)")
                #expect(type(of: message.content).type == vector.type, "\(vector.name)")
                again = try message.encode()
            }
            let (expected, found) = try (json(vector.frame), json(String(buffer: again)))
            // A later version of this implementation may have more limits than the vector.
            #expect(expected.isPart(of: found, extra: ["commandBytes"]), "\(vector.name)")
        }
    }

    private func json(_ text: String) throws -> VectorJSON { try JSONDecoder().decode(VectorJSON.self, from: Data(text.utf8)) }

    @Test func everyControlMessageOccurs() throws {
        let file = try VectorFolder.read(ControlVectors.self, "control")
        for (side, types) in [
            (ControlVectors.Side.endpoint, Set(ControlSamples.fromEndpoint.map { type(of: $0.content).type })),
            (.relay, Set(ControlSamples.fromRelay.map { type(of: $0.content).type })),
        ] {
            #expect(Set(file.valid.filter { $0.from == side }.map(\.type)) == types, "\(side)")
        }
    }

    @Test func invalidFramesAreHandledAsDocumented() throws {
        for vector in try VectorFolder.read(ControlVectors.self, "control").refused {
            let expected = ControlVectors.Judgement(closes: vector.closes, answers: vector.answers, isIgnored: vector.isIgnored)
            #expect(ControlVectors.judge(hex(vector.frame), from: vector.from) == expected, "\(vector.name)")
        }
    }

    @Test func sessionFramesRoundTrip() throws {
        for vector in try VectorFolder.read(SessionVectors.self, "session").frames {
            var decoder = SessionFrameDecoder()
            decoder.append(ByteBuffer(bytes: hex(vector.frame)))
            let frame = try #require(try decoder.next(), "\(vector.name)")
            #expect(decoder.heldBytes == 0, "\(vector.name)")
            #expect(frame.payload.type.rawValue == vector.type && "\(frame.payload.type)" == vector.typeName, "\(vector.name)")
            #expect(frame.connection.rawValue == vector.connection && frame.number == vector.request, "\(vector.name)")
            #expect(hex(Array(buffer: encodedSession([frame]))) == vector.frame, "\(vector.name)")
            #expect(hex(try bytes(of: vector)) == vector.frame, "\(vector.name)")
        }
    }

    /// Encodes the fields of a vector as a frame.
    private func bytes(of vector: SessionVectors.Frame) throws -> [UInt8] {
        var body = ByteBuffer()
        let metadata = try vector.metadata?.valueSet.encodedBytes() ?? []
        let type = try #require(SessionFrameType(rawValue: vector.type))
        switch type {
        case .settings: body.writeBytes(metadata)
        case .open, .request, .response:
            body.writeInteger(UInt16(metadata.count))
            body.writeBytes(metadata)
        default: break
        }
        if let last = vector.lastConnection { body.writeInteger(last) }
        if let code = vector.code { body.writeInteger(code) }
        if let text = vector.text { body.writeString(text) }
        if let credit = vector.credit { body.writeInteger(credit) }
        body.writeBytes(hex(vector.value ?? "") + hex(vector.message ?? ""))
        let frame = rawSessionFrame(
            vector.type,
            flags: vector.flags,
            connection: vector.connection,
            number: vector.request,
            Array(buffer: body)
        )
        return Array(buffer: frame)
    }

    @Test func everySessionFrameOccurs() throws {
        let file = try VectorFolder.read(SessionVectors.self, "session")
        #expect(Set(file.frames.map(\.type)) == Set(SessionFrameType.allCases.map(\.rawValue)))
    }

    @Test func invalidStreamsEndTheSession() throws {
        let file = try VectorFolder.read(SessionVectors.self, "session")
        for vector in file.streams {
            let error = SessionVectors.error(of: hex(vector.bytes))
            #expect(error?.rawValue == vector.error && error.map { "\($0)" } == vector.errorName, "\(vector.name)")
        }
        #expect(file.streams.contains { $0.error == nil })
        for vector in file.prefaces {
            let preface = try #require(TunnelPreface(bytes: hex(vector.bytes)))
            #expect(preface.tunnel.description == vector.tunnel && hex(preface.token.exposed.bytes) == vector.token)
            #expect(hex(preface.bytes) == vector.bytes)
        }
    }
}
