// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol

/// The public-key operations of one launch, sender and target together, compared with their lower bound.
func launchBenchmarks() throws -> [(title: String, measurements: [Measurement])] {
    let (signing, agreement, ephemeral) = (P256.Signing.PrivateKey(), P256.KeyAgreement.PrivateKey(), P256.KeyAgreement.PrivateKey())
    let (verifying, recipient, body) = (signing.publicKey, agreement.publicKey, [UInt8](repeating: 7, count: 400))
    let signature = try signing.signature(for: body)
    let scalar = ephemeral.rawRepresentation
    let (makeKey, agree) = (
        { keep(try P256.KeyAgreement.PrivateKey(rawRepresentation: scalar)) },
        { keep(try ephemeral.sharedSecretFromKeyAgreement(with: recipient)) }
    )
    let (sign, verify) = ({ keep(try signing.signature(for: body)) }, { keep(verifying.isValidSignature(signature, for: body)) })

    let holder = try P256AgreementKey(rawRepresentation: [UInt8](agreement.rawRepresentation))
    let info = Array("benchmark".utf8)
    func seal() throws -> (encapsulatedKey: [UInt8], ciphertext: [UInt8]) {
        try holder.publicKey.seal(body, info: info, associatedData: body)
    }
    let sealed = try seal()
    func open() throws -> [UInt8] {
        try holder.open(sealed.ciphertext, encapsulatedKey: sealed.encapsulatedKey, info: info, associatedData: body)
    }
    return [
        (
            "public keys: what one launch needs",
            [
                Measurement("one key made, two agreements, two signed, two checked") {
                    try makeKey()
                    for _ in 0..<2 {
                        try agree()
                        try sign()
                        verify()
                    }
                },
                Measurement("a key made", body: makeKey), Measurement("an agreement", body: agree),
                Measurement("a signature made", body: sign),
                Measurement("a signature checked", body: verify), Measurement("400 bytes sealed") { keep(try seal()) },
                Measurement("400 bytes opened") { keep(try open()) },
            ]
        )
    ]
}
