// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import Testing

@testable import RelayProtocol

extension VectorMaker {
    var secret: [UInt8] { Digest256(hashing: Array("device-relay test secret".utf8)).bytes }

    private func signed(
        _ name: String,
        _ kind: IdentityVectors.Kind,
        _ payload: some SignedPayload,
        by signer: String,
        membership: String? = nil,
        record: String? = nil
    ) throws -> IdentityVectors.Valid {
        let envelope = try ValueSet(decoding: try Signed(payload, key: try keys.signing(signer)).encoded)
        return IdentityVectors.Valid(
            name: name,
            kind: kind,
            purpose: type(of: payload).purpose.rawValue,
            signer: signer,
            fields: try VectorJSON(encoding: payload),
            body: hex(envelope["body"]?.data ?? []),
            signature: hex(envelope["signature"]?.data ?? []),
            encoded: hex(try envelope.encodedBytes()),
            membership: membership,
            record: record
        )
    }

    func identities() throws -> IdentityVectors {
        func membership(_ device: String) throws -> String {
            hex(Array(account.utf8) + [0] + (try keys.endpoint("\(device).identity")).digest.bytes)
        }
        let (phone, pc) = (try keys.endpoint("phone.identity"), try keys.endpoint("pc.identity"))
        let proof = InvitationProof.make(secret: secret, endpoint: phone)
        let records = [
            try signed("PC", .endpointRecord, try record("pc"), by: "pc.identity", membership: try membership("pc")),
            try signed(
                "phone with proof",
                .endpointRecord,
                try record("phone", proof: proof),
                by: "phone.identity",
                membership: try membership("phone")
            ),
        ]
        let registration = AppRegistration(
            version: 3,
            account: account,
            endpoint: pc,
            appID: "com.example.player",
            displayName: "Player ▶",
            attributes: ["version": "3", "x": ""],
            schemes: [.init(name: "https", isDefault: true), .init(name: "film")],
            services: [.init(name: "remote-control", allowedApps: ["com.example.remote"]), .init(name: "open")],
            identity: "apps.example.org",
            allowedApps: ["com.example.remote"],
            acceptsUnencryptedCommands: false
        )
        let smallest = AppRegistration(version: 1, account: account, endpoint: phone, appID: "a", displayName: "")
        let phoneRecord = hex(records[1].encoded)
        let newcomer = try Signed<EndpointRecord>(verifying: phoneRecord)
        let voucher = Voucher(by: pc, for: newcomer, knowledge: .verified, time: time)
        let valid =
            records + [
                try signed("player", .appRegistration, registration, by: "pc.identity"),
                try signed("smallest app", .appRegistration, smallest, by: "phone.identity"),
                try signed("verified", .voucher, voucher, by: "pc.identity", record: hex(phoneRecord)),
                try signed(
                    "first seen",
                    .voucher,
                    Voucher(by: pc, for: newcomer, knowledge: .firstSeen, time: time),
                    by: "pc.identity",
                    record: hex(phoneRecord)
                ),
                try signed("of another one", .revocation, Revocation(of: phone, by: pc, account: account, time: time), by: "pc.identity"),
                try signed("of itself", .revocation, Revocation(of: phone, by: phone, account: account, time: time), by: "phone.identity"),
            ]
        return IdentityVectors(
            account: account,
            valid: valid,
            sequences: try sequences(),
            refused: try refusedRecords() + refusedStatements(registration, voucher, phoneRecord)
        )
    }

    private func sequences() throws -> [IdentityVectors.Sequence] {
        func encoded(_ record: EndpointRecord) throws -> String { hex(try Signed(record, key: try keys.signing("pc.identity")).encoded) }
        func encoded(_ version: UInt64, _ name: String) throws -> String { try encoded(record("pc", version: version, name: name)) }
        let (oldest, second) = (try record("pc", name: "First"), try encoded(2, "Second"))
        let first = try encoded(oldest)
        return [
            .init(
                name: "versions only grow",
                steps: [
                    .init(encoded: first), .init(encoded: first), .init(encoded: second), .init(encoded: first, error: "outdated"),
                    .init(encoded: try encoded(2, "Another"), error: "versionReused"), .init(encoded: try encoded(4, "Fourth")),
                ]
            ),
            // The same body with a new signature.
            .init(name: "signed anew", steps: [.init(encoded: first), .init(encoded: try encoded(oldest))]),
        ]
    }

    private func refusedRecords() throws -> [IdentityVectors.Refused] {
        let (key, body) = ("pc.identity", try body(try record("pc")))
        let good = try envelope(body, by: key, for: .endpointRecord)
        func changed(_ change: (inout ValueSet) throws -> Void) throws -> [UInt8] {
            var set = try ValueSet(decoding: body)
            try change(&set)
            return try envelope(try set.encodedBytes(), by: key, for: .endpointRecord)
        }
        // `kind` is the first key of a body.
        let kind: [UInt8] = try (["kind": "desktop"] as ValueSet).encodedBytes()
        let twice: [UInt8] = [body[0] + 1] + Array(kind.dropFirst()) + Array(body.dropFirst())
        let long: [UInt8] = [0xB8, body[0] & 0x1F] + Array(body.dropFirst())
        let renamed = flipped(body, at: index(of: "study", in: body))
        let cases: [(String, [UInt8])] = [
            ("signed for another purpose", try envelope(body, by: key, for: .appRegistration)),
            ("signed by another key", try envelope(body, by: "other.identity", for: .endpointRecord)),
            ("a bit of the signature flipped", flipped(good, at: good.count - 1)),
            (
                "a bit of the name flipped",
                try envelope(body, by: key, for: .endpointRecord) { $0["body"] = .data(renamed) }
            ),
            ("a byte behind it", good + [0]),
            ("a byte behind the body", try envelope(body + [0], by: key, for: .endpointRecord)),
            ("a further key in the envelope", try envelope(body, by: key, for: .endpointRecord) { $0["more"] = 1 }),
            ("the same key twice", try envelope(twice, by: key, for: .endpointRecord)),
            (
                "a length that is not in its shortest form",
                try envelope(long, by: key, for: .endpointRecord)
            ),
            ("no version", try changed { $0["version"] = nil }),
            ("version 0", try changed { $0["version"] = 0 }),
            ("version 2^53", try changed { $0["version"] = .int(1 << 53) }),
            ("a system key that signed nothing", try changed { $0["systemKey"] = .data(try keys.signing("phone.system").publicKey.spki) }),
            ("a system signature for another account", try changed { $0["account"] = "account-2" }),
            ("a control character in the name", try changed { $0["name"] = "a\u{1B}[2J" }),
            ("a bidirectional override in the name", try changed { $0["name"] = "a\u{202E}b" }),
            ("an invisible name", try changed { $0["name"] = " \u{200D}" }),
            ("a name of 65 characters", try changed { $0["name"] = .string(String(repeating: "n", count: 65)) }),
            ("a space in the account", try changed { $0["account"] = "a b" }),
            ("a proof of 31 bytes", try changed { $0["invitationProof"] = .data(Array(repeating: 1, count: 31)) }),
        ]
        return try cases.map { name, encoded in
            let error = vectorError { _ = try Signed<EndpointRecord>(verifying: encoded) }
            return .init(name: name, kind: .endpointRecord, signer: key, encoded: hex(encoded), error: try #require(error, "\(name)"))
        }
    }

    private func refusedStatements(_ registration: AppRegistration, _ voucher: Voucher, _ record: [UInt8]) throws -> [IdentityVectors
        .Refused]
    {
        let key = "pc.identity"
        let (phone, pc) = (try keys.endpoint("phone.identity"), try keys.endpoint(key))
        func changed(_ payload: some SignedPayload, _ change: (inout ValueSet) throws -> Void) throws -> [UInt8] {
            var set = try ValueSetEncoder().encode(payload)
            try change(&set)
            return try envelope(try set.encodedBytes(), by: key, for: type(of: payload).purpose)
        }
        let revocation = Revocation(of: phone, by: pc, account: account, time: time)
        let cases: [(String, IdentityVectors.Kind, [UInt8])] = [
            ("an app of another endpoint", .appRegistration, try changed(registration) { $0["endpoint"] = .string(phone.description) }),
            ("an app of another account", .appRegistration, try changed(registration) { $0["account"] = "account-2" }),
            ("an app by another key", .appRegistration, try envelope(try body(registration), by: "phone.identity", for: .appRegistration)),
            ("an app signed as a record", .appRegistration, try envelope(try body(registration), by: key, for: .endpointRecord)),
            (
                "a scheme in capitals", .appRegistration,
                try changed(registration) { $0["schemes"] = .array([["name": "HTTPS", "isDefault": true]]) }
            ),
            (
                "a scheme twice", .appRegistration,
                try changed(registration) {
                    $0["schemes"] = .array([["name": "a", "isDefault": true], ["name": "a", "isDefault": false]])
                }
            ),
            (
                "a service name of 129 bytes", .appRegistration,
                try changed(registration) { $0["services"] = .array([["name": .string(String(repeating: "s", count: 129))]]) }
            ),
            ("a voucher by another key", .voucher, try envelope(try body(voucher), by: "other.identity", for: .voucher)),
            (
                "a voucher of another endpoint's", .voucher,
                try changed(voucher) { $0["voucher"] = .string(try keys.endpoint("other.identity").description) }
            ),
            (
                "a voucher for another endpoint", .voucher,
                try changed(voucher) { $0["endpoint"] = .string(try keys.endpoint("other.identity").description) }
            ),
            ("a voucher for another account", .voucher, try changed(voucher) { $0["account"] = "account-2" }),
            ("a voucher for another device", .voucher, try changed(voucher) { $0["system"] = .string(try keys.key("pc.system").id) }),
            ("a voucher for a newer record", .voucher, try changed(voucher) { $0["recordVersion"] = 2 }),
            (
                "a voucher for another record of the version", .voucher,
                try changed(voucher) { $0["record"] = .data(Digest256(hashing: [1]).bytes) }
            ),
            ("a voucher for itself", .voucher, try changed(voucher) { $0["endpoint"] = .string(pc.description) }),
            ("a voucher of unknown knowledge", .voucher, try changed(voucher) { $0["knowledge"] = "heard" }),
            ("a revocation by another key", .revocation, try envelope(try body(revocation), by: "other.identity", for: .revocation)),
            ("a revocation signed as a voucher", .revocation, try envelope(try body(revocation), by: key, for: .voucher)),
            ("a revocation in another's name", .revocation, try changed(revocation) { $0["revoker"] = .string(phone.description) }),
            ("a revocation of another account", .revocation, try changed(revocation) { $0["account"] = "account-2" }),
            ("a revocation with a byte behind it", .revocation, try envelope(try body(revocation), by: key, for: .revocation) + [0]),
        ]
        return try cases.map { name, kind, encoded in
            let about: [UInt8]? = kind == .voucher ? record : nil
            let error = vectorError {
                try IdentityVectors.check(encoded, kind, by: try keys.signing(key).publicKey, account: account, record: about)
            }
            return .init(
                name: name,
                kind: kind,
                signer: key,
                encoded: hex(encoded),
                record: about.map { hex($0) },
                error: try #require(error, "\(name)")
            )
        }
    }

    private func index(of text: String, in bytes: [UInt8]) -> Int {
        let text = Array(text.utf8)
        return bytes.indices.first { bytes[$0...].starts(with: text) } ?? bytes.count - 1
    }

    // MARK: Fingerprints

    func fingerprints() throws -> FingerprintVectors {
        func ids(_ identity: String, _ system: String) throws -> (endpoint: EndpointID, system: SystemID) {
            (try keys.endpoint(identity), SystemID(try keys.signing(system).publicKey))
        }
        let all = [
            ("of the phone", try ids("phone.identity", "phone.system")), ("of the PC", try ids("pc.identity", "pc.system")),
            ("of the phone's key on the PC's device", try ids("phone.identity", "pc.system")),
            // Base32 writes the largest values as digits, which come before letters in text.
            ("whose id sorts otherwise as text", try ids("pc.agreement", "phone.system")),
        ]
        func code(_ own: Int, _ other: Int) -> FingerprintVectors.Code {
            .init(own: all[own].0, other: all[other].0, code: VerificationCode(all[own].1, all[other].1).description)
        }
        return FingerprintVectors(
            fingerprints: all.map { name, ids in
                .init(
                    name: name,
                    endpoint: ids.endpoint.description,
                    system: ids.system.description,
                    statement: hex(Purpose.fingerprint.statement(ids.endpoint.digest.bytes + ids.system.digest.bytes)),
                    words: FingerprintWords(endpoint: ids.endpoint, system: ids.system).description
                )
            },
            codes: [code(0, 1), code(1, 0), code(2, 1), code(1, 3), code(3, 1)]
        )
    }

    // MARK: Direct paths

    func nearby() throws -> NearbyVectors {
        func pair(_ name: String, _ devices: [String]) throws -> NearbyVectors.Pair {
            let ids = try devices.map { try keys.endpoint("\($0).identity") }
            let links = try devices.map { try keys.link("\($0).link") }
            let shared = try PairKeys(links[0], of: ids[0], with: links[1].publicKey, of: ids[1])
            let nonce: [UInt8] = [0, 7, 0x9A, 0x80, 1, 2, 3, 4, 5, 6, 7, 8]
            return .init(
                name: name,
                identities: devices.map { "\($0).identity" },
                links: devices.map { "\($0).link" },
                salt: hex(PairKeys.salt(ids[0], ids[1])),
                tagKey: hex(shared.tag.withUnsafeBytes { Array($0) }),
                knockKey: hex(shared.knock.withUnsafeBytes { Array($0) }),
                candidatesKey: hex(shared.candidates.withUnsafeBytes { Array($0) }),
                tags: zip(devices, ids).map { device, id in
                    .init(advertiser: "\(device).identity", nonce: hex(nonce), tag: hex(shared.tag(of: id, nonce: nonce)))
                },
                knocks: [(0, 1), (1, 0)].map { dialer, listener in
                    let knock = Knock(
                        challenge: Array(0..<16),
                        kind: .known,
                        nonce: Array(16..<24),
                        dialer: ids[dialer],
                        listener: ids[listener]
                    )
                    return .init(
                        dialer: "\(devices[dialer]).identity",
                        listener: "\(devices[listener]).identity",
                        kind: knock.kind.rawValue,
                        challenge: hex(knock.challenge),
                        nonce: hex(knock.nonce),
                        statement: hex(knock.statement),
                        proof: hex(shared.proof(of: knock))
                    )
                },
                candidates: try candidates(shared, devices, ids),
                refusedCandidates: try refusedCandidates(shared, devices, ids)
            )
        }
        return NearbyVectors(pairs: [try pair("phone and PC", ["phone", "pc"]), try pair("PC and phone", ["pc", "phone"])])
    }

    private func tunnel(_ last: UInt8) throws -> TunnelID { try #require(TunnelID(bytes: Array(0..<15) + [last])) }

    private func candidates(_ keys: PairKeys, _ devices: [String], _ ids: [EndpointID]) throws -> [NearbyVectors.CandidatesVector] {
        let samples: [(sender: Int, port: UInt16, addresses: [String])] = [
            (0, 49_152, ["fd00::1:2", "192.168.1.17"]), (1, 1_024, []), (1, 65_535, (1...8).map { "10.0.0.\($0)" }),
        ]
        return try samples.enumerated().map { index, sample in
            let (tunnel, sender) = (try tunnel(UInt8(index)), ids[sample.sender])
            let addresses = try sample.addresses.map { try #require(IPAddress(parsing: $0.utf8)) }
            let candidates = try #require(HostCandidates(port: sample.port, addresses: addresses))
            let nonce = Array(repeating: UInt8(index + 1), count: 12)
            return .init(
                tunnel: tunnel.description,
                sender: "\(devices[sample.sender]).identity",
                port: sample.port,
                addresses: sample.addresses,
                nonce: hex(nonce),
                associatedData: hex(SealedCandidates.associatedData(tunnel, sender)),
                content: hex(try candidates.content()),
                sealed: hex(try sealed(candidates.content(), tunnel, sender, keys, nonce))
            )
        }
    }

    private func refusedCandidates(_ keys: PairKeys, _ devices: [String], _ ids: [EndpointID]) throws -> [NearbyVectors.RefusedCandidates] {
        let (named, other, nonce) = (try tunnel(0), try tunnel(1), Array(repeating: UInt8(9), count: 12))
        let content: ValueSet = ["port": 4_711, "addresses": .array([.data([10, 0, 0, 1])])]
        func text(_ content: ValueSet, in tunnel: TunnelID, from sender: EndpointID) throws -> [UInt8] {
            try sealed(try content.encodedBytes(), tunnel, sender, keys, nonce)
        }
        let good = try text(content, in: named, from: ids[0])
        let nine = Array(repeating: ValueSet.Value.data([10, 0, 0, 1]), count: 9)
        let all: [(String, [UInt8])] = [
            ("of another tunnel", try text(content, in: other, from: ids[0])),
            ("of the other side", try text(content, in: named, from: ids[1])),
            ("with a changed tag", good.dropLast() + [(good.last ?? 0) ^ 1]), ("cut", Array(good.dropLast())), ("too short", [1, 2, 3]),
            ("a low port", try text(["port": 1_023, "addresses": .array([.data([10, 0, 0, 1])])], in: named, from: ids[0])),
            ("a port that is none", try text(["port": 65_536, "addresses": []], in: named, from: ids[0])),
            ("nine addresses", try text(["port": 4_711, "addresses": .array(nine)], in: named, from: ids[0])),
            ("an address of 5 bytes", try text(["port": 4_711, "addresses": .array([.data([1, 2, 3, 4, 5])])], in: named, from: ids[0])),
            ("no addresses", try text(["port": 4_711], in: named, from: ids[0])),
        ]
        return all.map {
            .init(name: $0.0, tunnel: named.description, sender: "\(devices[0]).identity", sealed: hex($0.1))
        }
    }

    private func sealed(
        _ content: [UInt8],
        _ tunnel: TunnelID,
        _ sender: EndpointID,
        _ keys: PairKeys,
        _ nonce: [UInt8]
    ) throws -> [UInt8] {
        let box = try AES.GCM.seal(
            content,
            using: keys.candidates,
            nonce: AES.GCM.Nonce(data: nonce),
            authenticating: SealedCandidates.associatedData(tunnel, sender)
        )
        return nonce + box.ciphertext + box.tag
    }

    // MARK: Invitations and hello

    func invitations() throws -> InvitationVectors {
        let phone = try keys.endpoint("phone.identity")
        let (proof, invite) = (InvitationProof.make(secret: secret, endpoint: phone), "AAECAwQFBgcICQoLDA0ODw")
        let by = try keys.endpoint("pc.identity")
        let link = try JoinLink(
            origin: "https://relay.example:8443",
            relay: try relay,
            invite: Secret(invite),
            proof: Secret(Base64.url.encode(secret)),
            by: by
        )
        func changed(_ from: String, _ to: String) -> String { link.text.replacingOccurrences(of: from, with: to) }
        let links: [(String, String)] = [
            ("without a fragment", "https://relay.example:8443/"), ("over plain HTTP", changed("https:", "http:")),
            ("of another scheme", changed("https:", "ftp:")), ("with a path", changed(":8443/", ":8443/x/")),
            ("with a user", changed("relay.example", "me@relay.example")), ("on port 0", changed("8443", "0")),
            ("without the relay", changed("relay=", "r=")), ("without a code", changed("invite=", "i=")),
            ("with a relay that is no id", changed(try relay.description, "short")),
            ("with a code that is no base64url", changed(invite, "a+b")),
            ("with a code twice", link.text + ",invite=x"), ("with an inviter and no proof", changed("proof=", "p=")),
            ("with an inviter that is no id", changed(by.description, "short")),
            ("of 2,049 bytes", link.text + ",x=" + String(repeating: "x", count: 2_049 - link.text.utf8.count - 3)),
        ]
        return InvitationVectors(
            invitations: [
                .init(
                    name: "of the PC for the phone",
                    secret: hex(secret),
                    endpoint: phone.description,
                    statement: hex(Purpose.invitation.statement(phone.digest.bytes)),
                    proof: hex(proof),
                    origin: link.origin,
                    relay: try relay.description,
                    invite: invite,
                    by: by.description,
                    link: link.text
                )
            ],
            refusedProofs: [
                .init(name: "of another endpoint", secret: hex(secret), endpoint: by.description, proof: hex(proof)),
                .init(
                    name: "of another secret",
                    secret: hex(Digest256(hashing: secret).bytes),
                    endpoint: phone.description,
                    proof: hex(proof)
                ),
                .init(name: "with a bit flipped", secret: hex(secret), endpoint: phone.description, proof: hex(flipped(proof, at: 31))),
                .init(name: "cut short", secret: hex(secret), endpoint: phone.description, proof: hex(proof.dropLast())),
            ],
            refusedLinks: try links.map { name, text in
                .init(name: name, link: text, error: try #require(vectorError { _ = try JoinLink(parsing: text) }, "\(name)"))
            }
        )
    }

    func hellos(_ identities: IdentityVectors) throws -> HelloVectors {
        func hello(
            _ name: String,
            _ statement: HelloStatement,
            _ token: String,
            _ record: [UInt8],
            signed: HelloStatement? = nil,
            purpose: Purpose = .hello,
            by signer: String = "phone.identity"
        ) throws -> HelloVectors.Hello {
            let bytes = try ValueSetEncoder().encode(signed ?? statement).encodedBytes()
            return .init(
                name: name,
                signer: "phone.identity",
                relay: statement.relay.description,
                origin: statement.origin,
                nonce: hex(statement.nonce),
                token: token,
                record: hex(record),
                statement: hex(try ValueSetEncoder().encode(statement).encodedBytes()),
                signature: hex(try keys.signing(signer).sign(bytes, for: purpose))
            )
        }
        let (token, record) = ("an.access.token", identities.record(of: "phone.identity"))
        let nonce = Digest256(hashing: Array("nonce".utf8)).bytes
        let good = HelloStatement(relay: try relay, origin: "https://relay.example:8443", nonce: nonce, token: token, record: record)
        func other(_ change: (inout HelloStatement) throws -> Void) rethrows -> HelloStatement {
            var other = good
            try change(&other)
            return other
        }
        return HelloVectors(
            valid: [try hello("of the phone", good, token, record)],
            refused: [
                try hello(
                    "for another relay",
                    good,
                    token,
                    record,
                    signed: try other { $0.relay = RelayID(try keys.signing("otherRelay").publicKey) }
                ),
                try hello("for another origin", good, token, record, signed: other { $0.origin = "https://relay.example" }),
                try hello("for another nonce", good, token, record, signed: other { $0.nonce[0] ^= 1 }),
                try hello("for another token", good, token, record, signed: other { $0.token = Digest256(hashing: []) }),
                try hello("for another record", good, token, record, signed: other { $0.record = Digest256(hashing: []) }),
                try hello("signed for another purpose", good, token, record, purpose: .endpointRecord),
                try hello("signed by another key", good, token, record, by: "other.identity"),
            ]
        )
    }
}
