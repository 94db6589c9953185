// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import Testing

@testable import RelayProtocol

/// Against the Crypto library's own HPKE, which knows nothing of ours.
@Suite struct HybridEncryptionTests {
    private let key = P256.KeyAgreement.PrivateKey()
    private let suite = HPKE.Ciphersuite.P256_SHA256_AES_GCM_256
    private let info = Array("device-relay test".utf8)
    private let header = Array("the header".utf8)

    private var holder: P256AgreementKey {
        get throws { try P256AgreementKey(rawRepresentation: [UInt8](key.rawRepresentation)) }
    }

    private func sealed(_ plain: [UInt8]) throws -> (encapsulatedKey: [UInt8], ciphertext: [UInt8]) {
        try AgreementPublicKey(key.publicKey).seal(plain, info: info, associatedData: header)
    }

    @Test(arguments: [0, 1, 15, 16, 17, 1_000, 256 << 10]) func eachOpensWhatTheOtherSeals(_ size: Int) throws {
        let plain = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let ours = try sealed(plain)
        var recipient = try HPKE.Recipient(
            privateKey: key,
            ciphersuite: suite,
            info: Data(info),
            encapsulatedKey: Data(ours.encapsulatedKey)
        )
        #expect(Array(try recipient.open(ours.ciphertext, authenticating: header)) == plain)

        var sender = try HPKE.Sender(recipientKey: key.publicKey, ciphersuite: suite, info: Data(info))
        let theirs = Array(try sender.seal(plain, authenticating: header))
        let encapsulated = Array(sender.encapsulatedKey)
        #expect(try holder.open(theirs, encapsulatedKey: encapsulated, info: info, associatedData: header) == plain)
    }

    @Test func nothingIsSealedTwiceAlike() throws {
        let all = try (0..<50).map { _ in try sealed([1]) }
        #expect(Set(all.map(\.encapsulatedKey)).count == 50)
        #expect(Set(all.map(\.ciphertext)).count == 50)
    }

    @Test func whatIsChangedDoesNotOpen() throws {
        let plain = Array("https://films.example/42".utf8)
        let (encapsulated, ciphertext) = try sealed(plain)
        let holder = try holder
        func opens(_ ciphertext: [UInt8], _ encapsulated: [UInt8], _ info: [UInt8], _ header: [UInt8]) -> Bool {
            (try? holder.open(ciphertext, encapsulatedKey: encapsulated, info: info, associatedData: header)) == plain
        }
        #expect(opens(ciphertext, encapsulated, info, header))
        for index in ciphertext.indices {
            var changed = ciphertext
            changed[index] ^= 1
            #expect(!opens(changed, encapsulated, info, header))
        }
        for index in encapsulated.indices {
            var changed = encapsulated
            changed[index] ^= 1
            #expect(!opens(ciphertext, changed, info, header))
        }
        for count in 0..<ciphertext.count { #expect(!opens(Array(ciphertext.prefix(count)), encapsulated, info, header)) }
        for count in 0..<encapsulated.count { #expect(!opens(ciphertext, Array(encapsulated.prefix(count)), info, header)) }
        #expect(!opens(ciphertext, encapsulated + [0], info, header))
        #expect(!opens(ciphertext, encapsulated, info + [0], header))
        #expect(!opens(ciphertext, encapsulated, info, header + [0]))
        #expect(!opens(ciphertext, [4] + [UInt8](repeating: 0, count: 64), info, header))
        #expect(throws: (any Error).self) {
            try P256AgreementKey().open(ciphertext, encapsulatedKey: encapsulated, info: info, associatedData: header)
        }
    }
}
