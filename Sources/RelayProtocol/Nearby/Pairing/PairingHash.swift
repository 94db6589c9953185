// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto

/// The side of a pairing. Its byte is in each HMAC, so that nothing can be sent back to the side that made it.
package enum PairingRole: UInt8, Sendable {
    /// The side that shows the code or the link. It answers.
    case shows = 0
    /// The side that types the code or scans the link. It calls.
    case calls = 1
}

/// The HMACs of a pairing between two endpoints, whose ids TLS has proved.
package struct PairingHash: Hashable, Sendable {
    /// The length of HMACs and nonces.
    package static let byteCount = 32

    package let caller: EndpointID
    package let shower: EndpointID

    /// - Throws: `ownDevice`.
    package init(caller: EndpointID, shower: EndpointID) throws(PairingError) {
        guard caller != shower else { throw .ownDevice }
        self.caller = caller
        self.shower = shower
    }

    private var ids: [UInt8] { caller.digest.bytes + shower.digest.bytes }

    // MARK: Code

    /// What a side commits to in a round.
    package func statement(_ role: PairingRole, round: UInt8, bit: Bool) -> [UInt8] {
        Purpose.pairingCode.statement([role.rawValue, round, bit ? 1 : 0] + ids)
    }

    package func commitment(_ role: PairingRole, round: UInt8, bit: Bool, nonce: [UInt8]) -> [UInt8] {
        Self.code(statement(role, round: round, bit: bit), nonce)
    }

    /// Whether the side has committed to this bit, now that its nonce is known. Compares in constant time.
    package func isValid(_ commitment: [UInt8], _ role: PairingRole, round: UInt8, bit: Bool, nonce: [UInt8]) -> Bool {
        // A shorter nonce would be the same key as one that zeros follow.
        nonce.count == Self.byteCount && Self.isValid(commitment, statement(role, round: round, bit: bit), nonce)
    }

    // MARK: Link

    /// What a side proves by the secret of a link.
    package func statement(_ role: PairingRole) -> [UInt8] { Purpose.pairingSecret.statement([role.rawValue] + ids) }

    package func proof(_ role: PairingRole, secret: Secret<[UInt8]>) -> [UInt8] { Self.code(statement(role), secret.exposed) }

    /// Compares in constant time.
    package func isValid(_ proof: [UInt8], _ role: PairingRole, secret: Secret<[UInt8]>) -> Bool {
        Self.isValid(proof, statement(role), secret.exposed)
    }

    private static func code(_ statement: [UInt8], _ key: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: statement, using: SymmetricKey(data: key)))
    }

    private static func isValid(_ code: [UInt8], _ statement: [UInt8], _ key: [UInt8]) -> Bool {
        HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: statement, using: SymmetricKey(data: key))
    }
}
