// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Two endpoints prove to each other that they have the secret of a link, in one call. Without I/O.
package enum SecretPairing {
    /// The side that scans the link.
    package struct Caller: Sendable {
        private let secret: Secret<[UInt8]>
        private let hash: PairingHash

        /// - Parameter peer: The id that TLS has proved.
        /// - Throws: `otherDevice` if the link is another device's; `ownDevice`.
        package init(link: PairingLink, own: EndpointID, peer: EndpointID) throws(PairingError) {
            guard link.id == peer else { throw .otherDevice }
            secret = link.secret
            hash = try PairingHash(caller: own, shower: peer)
        }

        /// The only call.
        package var opening: PairingRequest { PairingRequest(.prove, hash.proof(.calls, secret: secret)) }

        /// Checks the answer. Then the devices are paired.
        package func finish(_ answer: PairingAnswer) throws(PairingError) {
            guard hash.isValid(try answer.accepted(), .shows, secret: secret) else { throw .wrong }
        }
    }

    /// The side that shows the link. `PairingOffer` says when it may be used.
    package struct Shower: Hashable, Sendable {
        private let secret: Secret<[UInt8]>
        private let hash: PairingHash

        /// - Parameter caller: The id that TLS has proved.
        /// - Throws: `ownDevice`.
        package init(secret: Secret<[UInt8]>, own: EndpointID, caller: EndpointID) throws(PairingError) {
            self.secret = secret
            hash = try PairingHash(caller: caller, shower: own)
        }

        /// - Returns: The proof for the answer, which pairs the devices; `nil` if the caller does not have the secret.
        package func receive(_ request: PairingRequest) -> [UInt8]? {
            guard request.step == .prove, request.round == 0, hash.isValid(request.value, .calls, secret: secret) else { return nil }
            return hash.proof(.shows, secret: secret)
        }
    }
}
