// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol
import Testing

@testable import RelayPush

@Suite struct WebPushEncryptionTests {
    private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64.url.decode(text)) }

    /// RFC 8291 appendix A.
    @Test func theExampleOfTheRFC() throws {
        let key = try P256.KeyAgreement.PrivateKey(rawRepresentation: try bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
        let encrypted = try WebPushEncryption.encrypt(
            Array("When I grow up, I want to be a watermelon".utf8),
            for: try bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
            secret: try bytes("BTBZMqHH6r4Tts7J_aSIgg"),
            key: key,
            salt: try bytes("DGv6ra1nlYgDCS1FRnbzlw")
        )
        let expected =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
            + "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        #expect(Base64.url.encode(encrypted) == expected)
    }

    /// RFC 8188 §3.1: one record, and no key id.
    @Test func oneRecordIsEncryptedAsInTheRFC() throws {
        let key = SymmetricKey(data: try bytes("yqdlZ-tYemfogSmv7Ws5PQ"))
        let expected = try bytes("I1BsxtFttlv3u_Oo94xnmwAAEAAA-NAVub2qFgBEuQKRapoZu-IxkIva3MEB1PD-ly8Thjg")
        let salt = try bytes("I1BsxtFttlv3u_Oo94xnmw")
        let encrypted = try WebPushEncryption.seal(Array("I am the walrus".utf8), inputKey: key, salt: salt, keyID: [])
        #expect(encrypted == expected)
        #expect(EncryptedContent.open(expected, inputKey: key) == Array("I am the walrus".utf8))
    }

    /// RFC 8188 §3.2: records of 25 bytes, as the reader of these tests reads them.
    @Test func manyRecordsAreReadAsInTheRFC() throws {
        let key = SymmetricKey(data: try bytes("BO3ZVPxUlnLORbVGMpbT1Q"))
        let body = try bytes("uNCkWiNYzKTnBN9ji3-qWAAAABkCYTHOG8chz_gnvgOqdGYovxyjuqRyJFjEDyoF1Fvkj6hQPdPHI51OEUKEpgz3SsLWIqS_uA")
        #expect(EncryptedContent.open(body, inputKey: key) == Array("I am the walrus".utf8))
        #expect(EncryptedContent.open(body.dropLast(), inputKey: key) == nil)
    }

    @Test func aKeyThatIsNoPointIsRefused() {
        for key in [[], [4], Array(repeating: UInt8(4), count: 65)] as [[UInt8]] {
            #expect(throws: WebPushEncryption.Failure.invalidKey) {
                try WebPushEncryption.encrypt([1], for: key, secret: Array(repeating: 0, count: 16))
            }
        }
    }

    @Test func aPlaintextFillsOneRecordAtMost() throws {
        let key = Array(P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
        let secret = Array(repeating: UInt8(1), count: 16)
        let largest = Array(repeating: UInt8(2), count: WebPushEncryption.maximumPlaintextBytes)
        #expect(try WebPushEncryption.encrypt(largest, for: key, secret: secret).count == 4_096)
        #expect(throws: WebPushEncryption.Failure.tooLong) { try WebPushEncryption.encrypt(largest + [2], for: key, secret: secret) }
    }
}
