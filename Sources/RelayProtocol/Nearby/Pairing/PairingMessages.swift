// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// One call of a pairing. Only the side that types the code or scans the link calls; the side that shows them answers.
package struct PairingRequest: Codable, Hashable, Sendable {
    /// The service that takes the calls.
    package static let service = "pairing"
    /// The name of the call.
    package static let type = "pair"

    package enum Step: String, Codable, Sendable {
        /// A commitment to one bit of the code. The answer has the other side's commitment to the same bit.
        case commit
        /// The nonce of the caller's commitment. The answer has the other side's nonce.
        case reveal
        /// The proof that the caller holds the secret of a link. The answer has the other side's proof.
        case prove
    }

    package var step: Step
    /// The number of the bit, from 0; 0 with `prove`.
    package var round: Int
    /// 32 bytes.
    package var value: [UInt8]

    package init(_ step: Step, round: Int = 0, _ value: [UInt8]) {
        self.step = step
        self.round = round
        self.value = value
    }
}

/// The answer to a `PairingRequest`.
package struct PairingAnswer: Codable, Hashable, Sendable {
    package enum State: String, Codable, Sendable {
        /// So far both sides agree. `value` is there.
        case accepted
        /// The attempt has failed.
        case wrong
        /// Somebody else is pairing just now.
        case busy
        /// The device does not pair, or no longer.
        case notPairing
    }

    package var state: State
    /// 32 bytes, with `accepted` only.
    package var value: [UInt8]?

    package init(_ state: State, _ value: [UInt8]? = nil) {
        self.state = state
        self.value = value
    }

    /// What the answer gives to the caller.
    func accepted() throws(PairingError) -> [UInt8] {
        switch state {
        case .busy: throw .busy
        case .notPairing: throw .notPairing
        case .wrong: throw .wrong
        case .accepted:
            guard let value, value.count == PairingHash.byteCount else { throw .invalidMessage }
            return value
        }
    }
}
