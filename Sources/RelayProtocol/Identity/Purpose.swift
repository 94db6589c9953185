// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation

/// The purpose of a signature, a seal, a MAC or a hash. Its text precedes the signed bytes, so that a signature for one purpose
/// is not valid for another.
package enum Purpose: String, CaseIterable, Sendable {
    case endpointRecord = "device-relay/1 endpoint record"
    case systemMembership = "device-relay/1 system membership"
    case appRegistration = "device-relay/1 app registration"
    case voucher = "device-relay/1 voucher"
    case revocation = "device-relay/1 revocation"
    case hello = "device-relay/1 hello"
    case command = "device-relay/1 command"
    case receipt = "device-relay/1 receipt"
    case reply = "device-relay/1 reply"
    case invitation = "device-relay/1 invitation"
    case fingerprint = "device-relay/1 fingerprint"
    case nearbyTag = "device-relay/1 nearby tag"
    case nearbyKnock = "device-relay/1 nearby knock"
    case nearbyCandidates = "device-relay/1 nearby candidates"
    case pairingCode = "device-relay/1 pairing code"
    case pairingSecret = "device-relay/1 pairing secret"

    /// The text as bytes; the `info` of HPKE and HKDF.
    package var bytes: [UInt8] { Array(rawValue.utf8) }

    /// The signed bytes: the text, a zero byte, and the message.
    package func statement(_ message: [UInt8]) -> [UInt8] {
        bytes + [0] + message
    }
}

extension SigningKey {
    package func sign(_ message: [UInt8], for purpose: Purpose) throws -> [UInt8] {
        try signature(for: purpose.statement(message))
    }
}

extension SigningPublicKey {
    package func isValid(_ signature: [UInt8], over message: [UInt8], for purpose: Purpose) -> Bool {
        isValid(signature, for: purpose.statement(message))
    }
}

/// The proof that a new device holds the secret of an invitation: the HMAC-SHA256 of its endpoint id. The relay never sees the secret.
package enum InvitationProof {
    package static func make(secret: [UInt8], endpoint: EndpointID) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Purpose.invitation.statement(endpoint.digest.bytes), using: SymmetricKey(data: secret)))
    }

    /// Compares in constant time.
    package static func isValid(_ proof: [UInt8], secret: [UInt8], endpoint: EndpointID) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(
            proof,
            authenticating: Purpose.invitation.statement(endpoint.digest.bytes),
            using: SymmetricKey(data: secret)
        )
    }
}
