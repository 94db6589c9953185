// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import Testing

@testable import RelayProtocol

/// Sealing with agreement keys, compared with the HPKE of the Crypto library.
@Suite struct AgreementKeyTests {
    private static let suite = HPKE.Ciphersuite.P256_SHA256_AES_GCM_256
    private let info = Array("info".utf8)
    private let associated = Array("header".utf8)
    private let plain = Array("what nobody else may read".utf8)

    @Test func sealedDataOpensWithLibraryKeys() throws {
        let key = P256.KeyAgreement.PrivateKey()
        let sealed = try AgreementPublicKey(key.publicKey).seal(plain, info: info, associatedData: associated)
        var recipient = try HPKE.Recipient(
            privateKey: key,
            ciphersuite: Self.suite,
            info: Data(info),
            encapsulatedKey: Data(sealed.encapsulatedKey)
        )
        #expect([UInt8](try recipient.open(sealed.ciphertext, authenticating: associated)) == plain)
    }

    @Test func dataSealedByLibraryKeysOpens() throws {
        let key = P256AgreementKey()
        let publicKey = try P256.KeyAgreement.PublicKey(x963Representation: key.publicKey.bytes)
        var sender = try HPKE.Sender(recipientKey: publicKey, ciphersuite: Self.suite, info: Data(info))
        let ciphertext = [UInt8](try sender.seal(plain, authenticating: associated))
        let encapsulated = [UInt8](sender.encapsulatedKey)
        #expect(try key.open(ciphertext, encapsulatedKey: encapsulated, info: info, associatedData: associated) == plain)
        #expect(throws: (any Error).self) {
            try key.open(ciphertext, encapsulatedKey: encapsulated, info: info, associatedData: plain)
        }
        #expect(throws: (any Error).self) {
            try key.open(ciphertext, encapsulatedKey: encapsulated, info: associated, associatedData: associated)
        }
        #expect(throws: (any Error).self) {
            try P256AgreementKey().open(ciphertext, encapsulatedKey: encapsulated, info: info, associatedData: associated)
        }
    }

    /// Zeros, a point that is not on the curve, and a point that is too short.
    @Test func invalidEncapsulatedKeyIsRejected() throws {
        let key = P256AgreementKey()
        let sealed = try key.publicKey.seal(plain, info: info, associatedData: associated)
        var beside = sealed.encapsulatedKey
        beside[64] ^= 1
        for bytes in [Array(repeating: 0, count: 65), beside, Array(sealed.encapsulatedKey.dropLast()), [], [0]] {
            #expect(throws: (any Error).self, "\(bytes)") {
                try key.open(sealed.ciphertext, encapsulatedKey: bytes, info: info, associatedData: associated)
            }
        }
    }

    @Test func encapsulatedKeysAreUnique() throws {
        let target = P256AgreementKey().publicKey
        let keys = try (0..<200).map { _ in try target.seal(plain, info: info, associatedData: []).encapsulatedKey }
        #expect(Set(keys).count == keys.count)
    }
}
