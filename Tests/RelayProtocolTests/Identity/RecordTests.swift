// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayProtocol

@Suite struct RecordTests {
    @Test func signedRecordRoundTrips() throws {
        let endpoint = TestEndpoint()
        let signed = try endpoint.signedRecord(version: 7)
        let read = try Signed<EndpointRecord>(verifying: signed.encoded)
        #expect(read == signed)
        #expect(read.payload.endpointID == endpoint.id)
        #expect(read.payload.systemID == SystemID(endpoint.systemKey.publicKey))
        #expect(read.payload.version == 7)
        #expect(read.payload.name == "Living room")
        #expect(read.payload.agreementKey == endpoint.agreementKey.publicKey)
    }

    /// Flips each bit of a signed value and returns the flips that were accepted.
    private func accepted(_ encoded: [UInt8], by check: ([UInt8]) throws -> Void) -> [Int] {
        (0..<encoded.count * 8).filter { bit in
            var changed = encoded
            changed[bit / 8] ^= 1 << (bit % 8)
            return (try? check(changed)) != nil
        }
    }

    @Test func changedRecordBytesAreRejected() throws {
        let endpoint = TestEndpoint()
        let record = try endpoint.signedRecord()
        #expect(accepted(record.encoded) { _ = try Signed<EndpointRecord>(verifying: $0) } == [])
    }

    @Test func changedRegistrationAndVoucherBytesAreRejected() throws {
        let endpoint = TestEndpoint()
        let other = TestEndpoint()
        let record = try endpoint.record()
        let registration = try Signed(endpoint.registration(), key: endpoint.identityKey)
        #expect(try Signed<AppRegistration>(verifying: registration.encoded, from: record) == registration)
        #expect(accepted(registration.encoded) { _ = try Signed<AppRegistration>(verifying: $0, from: record) } == [])
        let newcomer = try other.signedRecord()
        let voucher = try Signed(Voucher(by: endpoint.id, for: newcomer, time: 1), key: endpoint.identityKey)
        #expect(try Signed<Voucher>(verifying: voucher.encoded, by: record, for: newcomer) == voucher)
        #expect(accepted(voucher.encoded) { _ = try Signed<Voucher>(verifying: $0, by: record, for: newcomer) } == [])
    }

    @Test func signatureOfAnotherKeyIsRejected() throws {
        let (endpoint, other) = (TestEndpoint(), TestEndpoint())
        let forged = try Signed(try endpoint.record(), key: other.identityKey)
        #expect(error(of: RecordError.self) { try Signed<EndpointRecord>(verifying: forged.encoded) } == .badSignature)
        let registration = try Signed(endpoint.registration(), key: other.identityKey)
        #expect(
            error(of: RecordError.self) { try Signed<AppRegistration>(verifying: registration.encoded, from: endpoint.record()) }
                == .badSignature
        )
        let foreign = try Signed(other.registration(), key: endpoint.identityKey)
        #expect(
            error(of: RecordError.self) { try Signed<AppRegistration>(verifying: foreign.encoded, from: endpoint.record()) }
                == .wrongEndpoint
        )
    }

    @Test func systemMembershipRequiresTheSystemKey() throws {
        let (owner, intruder) = (TestEndpoint(), TestEndpoint())
        var record = try intruder.record()
        let genuine = try owner.record()
        // The intruder's record with the owner's system key and signature, which covers another endpoint.
        let set = try ValueSetEncoder().encode(record)
        var forged = set
        forged["systemKey"] = .data(genuine.systemKey.spki)
        forged["systemSignature"] = .data(genuine.systemSignature)
        record = try ValueSetDecoder().decode(EndpointRecord.self, from: forged)
        #expect(error(of: RecordError.self) { try Signed(record, key: intruder.identityKey) } == .notPartOfSystem)
        // The owner's signature for another account is rejected, too.
        forged = try ValueSetEncoder().encode(genuine)
        forged["account"] = "account-2"
        record = try ValueSetDecoder().decode(EndpointRecord.self, from: forged)
        #expect(error(of: RecordError.self) { try record.validate(limits: Limits()) } == .notPartOfSystem)
    }

    @Test func signatureIsValidForItsPurposeOnly() throws {
        let key = P256SigningKey()
        for purpose in Purpose.allCases {
            let signature = try key.sign([1, 2, 3], for: purpose)
            for other in Purpose.allCases {
                #expect(key.publicKey.isValid(signature, over: [1, 2, 3], for: other) == (purpose == other))
            }
        }
        #expect(Set(Purpose.allCases.map(\.rawValue)).count == Purpose.allCases.count)
    }

    @Test func olderVersionsAreRejected() throws {
        let endpoint = TestEndpoint()
        var book = RecordBook(account: endpoint.account)
        let first = try endpoint.signedRecord(version: 5)
        let second = try endpoint.signedRecord(version: 6, name: "Kitchen")
        try book.add(endpointRecord: first.encoded)
        try book.add(endpointRecord: second.encoded, of: endpoint.id)
        try book.add(endpointRecord: second.encoded, of: endpoint.id)
        #expect(book[endpoint.id]?.payload.name == "Kitchen")
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: first.encoded) } == .outdated(known: 6, offered: 5))
        let same = try endpoint.signedRecord(version: 6, name: "Cellar")
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: same.encoded) } == .versionReused(6))
        #expect(book[endpoint.id]?.payload.name == "Kitchen")

        // A new signature over the same content is accepted.
        try book.add(endpointRecord: Signed(second.payload, key: endpoint.identityKey).encoded)

        let older = try Signed(endpoint.registration(version: 1), key: endpoint.identityKey)
        let newer = try Signed(endpoint.registration(version: 2), key: endpoint.identityKey)
        try book.set(appRegistrations: [newer.encoded], of: endpoint.id)
        #expect(
            error(of: RecordError.self) { try book.set(appRegistrations: [older.encoded], of: endpoint.id) }
                == .outdated(known: 2, offered: 1)
        )
        try book.set(appRegistrations: [newer.encoded], of: endpoint.id)
        #expect(book.registrations(of: endpoint.id) == [newer])
        try book.set(appRegistrations: [], of: endpoint.id)
        #expect(
            error(of: RecordError.self) { try book.set(appRegistrations: [older.encoded], of: endpoint.id) }
                == .outdated(known: 2, offered: 1)
        )
        #expect(error(of: RecordError.self) { try book.set(appRegistrations: [newer.encoded, newer.encoded], of: endpoint.id) } != nil)
    }

    @Test func removedRecordDoesNotReturnWithAnOlderVersion() throws {
        let endpoint = TestEndpoint()
        var book = RecordBook(account: endpoint.account)
        let older = try endpoint.signedRecord(version: 1)
        let newer = try endpoint.signedRecord(version: 2)
        let registrations = try (1...2).map { try Signed(endpoint.registration(version: $0), key: endpoint.identityKey) }
        try book.add(endpointRecord: newer.encoded)
        try book.set(appRegistrations: [registrations[1].encoded], of: endpoint.id)
        book.remove(endpoint.id)
        #expect(book[endpoint.id] == nil)
        #expect(error(of: RecordError.self) { try book.set(appRegistrations: [], of: endpoint.id) } == .wrongEndpoint)
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: older.encoded) } == .outdated(known: 2, offered: 1))
        try book.add(endpointRecord: newer.encoded)
        #expect(
            error(of: RecordError.self) { try book.set(appRegistrations: [registrations[0].encoded], of: endpoint.id) }
                == .outdated(known: 2, offered: 1)
        )
        book.forget(endpoint.id)
        try book.add(endpointRecord: older.encoded)
    }

    @Test func recordsOfOtherAccountsOrEndpointsAreRejected() throws {
        let endpoint = TestEndpoint()
        var foreignEndpoint = TestEndpoint()
        foreignEndpoint.account = "account-2"
        var book = RecordBook(account: endpoint.account)
        let record = try endpoint.signedRecord()
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: foreignEndpoint.signedRecord().encoded) } == .wrongAccount)
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: record.encoded, of: foreignEndpoint.id) } == .wrongEndpoint)
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: [1, 2, 3]) } == .malformed)
        #expect(error(of: RecordError.self) { try book.add(endpointRecord: []) } == .malformed)
    }

    @Test func registrationsOfAnEndpointAreBounded() throws {
        var limits = Limits()
        limits[.appRegistrationsBytes] = 1_500
        var book = RecordBook(account: "account-1", limits: limits)
        let endpoint = TestEndpoint()
        try book.add(endpointRecord: endpoint.signedRecord().encoded)
        let registrations = try (0..<4).map { try Signed(endpoint.registration(appID: "app-\($0)"), key: endpoint.identityKey).encoded }
        guard
            case .limitExceeded(let exceeded) = error(
                of: RecordError.self,
                from: { try book.set(appRegistrations: registrations, of: endpoint.id) }
            )
        else {
            Issue.record("four registrations were taken")
            return
        }
        #expect(exceeded.limit == .appRegistrationsBytes)
        // Apps that were published earlier do not count against the limit.
        for version in 1...20 as ClosedRange<UInt64> {
            let one = try Signed(endpoint.registration(version: version), key: endpoint.identityKey)
            try book.set(appRegistrations: [one.encoded], of: endpoint.id)
        }
    }

    @Test(arguments: [
        "", "   ", "a\u{0}b", "a\u{1B}[2J", "a\u{202E}b", "a\u{2066}b", "a\u{200B}b", "a\nb", "\u{3164}", "\u{2800}\u{200D}",
        String(repeating: "x", count: 65),
    ])
    func misleadingNamesAreRejected(_ name: String) throws {
        let endpoint = TestEndpoint()
        #expect(error(of: RecordError.self) { try endpoint.signedRecord(name: name) } != nil)
    }

    @Test(arguments: ["Böser Rechner", "居間", "👩‍👩‍👧 TV", String(repeating: "x", count: 64), "می‌خواهم"])
    func ordinaryNamesAreAccepted(_ name: String) throws {
        #expect(try TestEndpoint().signedRecord(name: name).payload.name == name)
    }

    @Test func displayTextIsSanitized() {
        #expect(DisplayText.sanitized("a\u{1B}[31mb\u{202E}") == "a\u{FFFD}[31mb\u{FFFD}")
        #expect(DisplayText.sanitized("plain 👩‍👩‍👧") == "plain 👩‍👩‍👧")
    }

    @Test func registrationsAreCheckedAgainstTheLimits() throws {
        let endpoint = TestEndpoint()
        func rejection(_ change: (inout AppRegistration) -> Void) -> RecordError? {
            var registration = endpoint.registration()
            change(&registration)
            return error(of: RecordError.self) { try Signed(registration, key: endpoint.identityKey) }
        }
        #expect(rejection { _ in } == nil)
        #expect(rejection { $0.schemes = [.init(name: "HTTP")] } == .invalidField("schemes"))
        #expect(rejection { $0.schemes = [.init(name: "a"), .init(name: "a")] } == .invalidField("schemes"))
        #expect(rejection { $0.schemes = (0..<33).map { .init(name: "s\($0)") } } != nil)
        #expect(rejection { $0.services = (0..<33).map { .init(name: "s\($0)") } } != nil)
        #expect(rejection { $0.services = [.init(name: String(repeating: "x", count: 129))] } != nil)
        #expect(rejection { $0.services = [.init(name: "x"), .init(name: "x")] } == .invalidField("services"))
        #expect(rejection { $0.attributes = Dictionary(uniqueKeysWithValues: (0..<33).map { ("k\($0)", "v") }) } != nil)
        #expect(rejection { $0.version = 0 } == .invalidField("version"))
        #expect(rejection { $0.version = .max } == .invalidField("version"))
        for appID in ["", " ", "com.example.\u{212A}odi", "com.example.player\u{200D}", String(repeating: "a", count: 257)] {
            #expect(rejection { $0.appID = appID } == .invalidField("appID"))
        }
        #expect(rejection { $0.displayName = "a\u{7}" } == .invalidField("displayName"))
    }

    @Test func voucherIsValidForOneEndpointOnItsDevice() throws {
        let (known, newcomer, other) = (TestEndpoint(), TestEndpoint(), TestEndpoint())
        let record = try newcomer.signedRecord(version: 2)
        let voucher = try Signed(Voucher(by: known.id, for: record, time: 1), key: known.identityKey)
        func rejection(by endpoint: TestEndpoint, for record: Signed<EndpointRecord>) -> RecordError? {
            error(of: RecordError.self) { try Signed<Voucher>(verifying: voucher.encoded, by: endpoint.record(), for: record) }
        }
        #expect(rejection(by: known, for: record) == nil)
        // The voucher holds after the device was renamed.
        #expect(try rejection(by: known, for: newcomer.signedRecord(version: 3, name: "Other name")) == nil)
        #expect(try rejection(by: known, for: newcomer.signedRecord(version: 2, name: "Other name")) == .versionReused(2))
        #expect(try rejection(by: known, for: newcomer.signedRecord(version: 1)) == .outdated(known: 2, offered: 1))
        #expect(rejection(by: other, for: record) == .badSignature)
        #expect(try rejection(by: known, for: other.signedRecord(version: 2)) == .wrongEndpoint)
        // The endpoint's key with another system key.
        let moved = try EndpointRecord(
            version: 3,
            account: newcomer.account,
            identityKey: newcomer.identityKey.publicKey,
            systemKey: other.systemKey,
            agreementKey: newcomer.agreementKey.publicKey,
            name: "Moved",
            kind: "desktop",
            platform: "linux"
        )
        #expect(try rejection(by: known, for: Signed(moved, key: newcomer.identityKey)) == .notPartOfSystem)
        #expect(
            error(of: RecordError.self) { try Signed(Voucher(by: newcomer.id, for: record, time: 1), key: newcomer.identityKey) } != nil
        )
    }

    @Test func invitationProofRequiresItsSecretAndEndpoint() {
        let (endpoint, other) = (TestEndpoint(), TestEndpoint())
        let proof = InvitationProof.make(secret: [1, 2, 3], endpoint: endpoint.id)
        #expect(proof.count == 32)
        #expect(InvitationProof.isValid(proof, secret: [1, 2, 3], endpoint: endpoint.id))
        #expect(!InvitationProof.isValid(proof, secret: [1, 2, 4], endpoint: endpoint.id))
        #expect(!InvitationProof.isValid(proof, secret: [1, 2, 3], endpoint: other.id))
        #expect(!InvitationProof.isValid([], secret: [1, 2, 3], endpoint: endpoint.id))
    }

    @Test func helloSignatureCoversEveryField() throws {
        let endpoint = TestEndpoint()
        let relay = RelayID(P256SigningKey().publicKey)
        let statement = HelloStatement(relay: relay, origin: "https://relay.example", nonce: [1, 2], token: "token", record: [9])
        let signature = try statement.sign(with: endpoint.identityKey)
        #expect(statement.isSigned(signature, by: endpoint.identityKey.publicKey))
        #expect(!statement.isSigned(signature, by: P256SigningKey().publicKey))
        var others = [statement, statement, statement, statement, statement]
        others[0].relay = RelayID(P256SigningKey().publicKey)
        others[1].origin = "https://relay.example:444"
        others[2].nonce = [1, 3]
        others[3].token = Digest256(hashing: Array("other".utf8))
        others[4].record = Digest256(hashing: [8])
        for other in others { #expect(!other.isSigned(signature, by: endpoint.identityKey.publicKey)) }
    }

    /// A point has one encoding: a coordinate plus the field's prime is the same number in the field's arithmetic and must be rejected.
    @Test func coordinatesAboveThePrimeAreRejected() throws {
        func bytes(_ words: UInt64...) -> [UInt8] {
            words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) } }
        }
        let prime = bytes(0xFFFF_FFFF_0000_0001, 0, 0x0000_0000_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
        // The point of the curve whose x is zero.
        let y = bytes(0x6648_5C78_0E2F_83D7, 0x2433_BD5D_84A0_6BB6, 0x541C_2AF3_1DAE_8717, 0x28BF_856A_174F_93F4)
        let head = P256SigningKey().publicKey.spki.prefix(27)
        #expect(throws: Never.self) { try SigningPublicKey(spki: head + bytes(0, 0, 0, 0) + y) }
        #expect(error(of: KeyError.self) { try SigningPublicKey(spki: head + prime + y) } != nil)
    }

    @Test func otherKeyEncodingsAreRejected() throws {
        let spki = P256SigningKey().publicKey.spki
        #expect(error(of: KeyError.self) { try SigningPublicKey(spki: []) } != nil)
        #expect(error(of: KeyError.self) { try SigningPublicKey(spki: spki + [0]) } != nil)
        #expect(error(of: KeyError.self) { try SigningPublicKey(spki: Array(spki.dropLast())) } != nil)
        var offCurve = spki
        offCurve[90] ^= 1
        #expect(error(of: KeyError.self) { try SigningPublicKey(spki: offCurve) } != nil)
        // Every byte before the coordinates is fixed.
        for index in 0..<27 {
            var other = spki
            other[index] ^= 1
            #expect(error(of: KeyError.self) { try SigningPublicKey(spki: other) } != nil)
        }
        #expect(try SigningPublicKey(spki: spki).spki == spki)
        #expect(error(of: KeyError.self) { try AgreementPublicKey(bytes: [UInt8](repeating: 4, count: 65)) } != nil)
        let stored = P256SigningKey()
        #expect(try P256SigningKey(rawRepresentation: stored.rawRepresentation).publicKey == stored.publicKey)
        #expect(throws: (any Error).self) { try P256SigningKey(rawRepresentation: [1]) }
        let agreement = P256AgreementKey()
        #expect(try P256AgreementKey(rawRepresentation: agreement.rawRepresentation).publicKey == agreement.publicKey)
    }
}
