// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// The keys that HPKE is given: those of the Crypto library, without what it would do with them again for each message.

/// A public key that remembers its encoding, which HPKE asks for several times, and each would invert a field element.
struct SealingPublicKey: HPKEDiffieHellmanPublicKey {
    typealias EphemeralPrivateKey = SealingPrivateKey

    let key: P256.KeyAgreement.PublicKey
    /// The uncompressed point.
    let bytes: [UInt8]

    init(_ key: P256.KeyAgreement.PublicKey) {
        self.key = key
        self.bytes = [UInt8](key.x963Representation)
    }

    init(_ serialization: some ContiguousBytes, kem: HPKE.KEM) throws {
        self.key = try P256.KeyAgreement.PublicKey(serialization, kem: kem)
        self.bytes = serialization.withUnsafeBytes { [UInt8]($0) }
    }

    func hpkeRepresentation(kem: HPKE.KEM) throws -> Data {
        guard kem == .P256_HKDF_SHA256 else { throw HPKE.Errors.inconsistentCiphersuiteAndKey }
        return Data(bytes)
    }
}

/// A private key with its public half at hand.
struct SealingPrivateKey: HPKEDiffieHellmanPrivateKeyGeneration {
    let key: P256.KeyAgreement.PrivateKey
    let publicKey: SealingPublicKey

    init(_ key: P256.KeyAgreement.PrivateKey) {
        self.key = key
        self.publicKey = SealingPublicKey(key.publicKey)
    }

    /// A new random key, as a sender makes one for each message. swift-crypto's own signs something with a new key and checks it (the
    /// pairwise test of FIPS 140), which takes almost as long as the rest of HPKE; a key that lives for one agreement needs none.
    init() {
        // As a key of another kind, since that is wiped when it is let go.
        self.init(scalars: { SymmetricKey(size: .bits256) })
    }

    /// Takes the first of these that is from 1 up to the curve's order (FIPS 186-5 §A.2.2): all but one of 2^32 are.
    init(scalars next: () -> some ContiguousBytes) {
        // As swift-crypto does: what yields no key so often is no random numbers, and nothing may be sealed with them.
        for _ in 0..<100 {
            guard let key = try? P256.KeyAgreement.PrivateKey(rawRepresentation: next()) else { continue }
            self.init(key)
            return
        }
        fatalError("the system has no random numbers")
    }

    func sharedSecretFromKeyAgreement(with publicKeyShare: SealingPublicKey) throws -> SharedSecret {
        try key.sharedSecretFromKeyAgreement(with: publicKeyShare.key)
    }
}
