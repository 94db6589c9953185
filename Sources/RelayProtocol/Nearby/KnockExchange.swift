// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The first bytes of a direct connection: the dialer proves that the listener knows it, before either says who it is. Without I/O.
///
/// ```text
/// listener  "DRL1", 16 random bytes
/// dialer    "DRL1", kind, 8 random bytes, 32 bytes of proof
/// listener  0, or it closes
/// ```
package enum KnockExchange {
    static let challengeBytes = Knock.magic.count + Knock.challengeBytes
    static let answerBytes = Knock.magic.count + 1 + Knock.nonceBytes + Knock.proofBytes
    package static let accepted: UInt8 = 0

    /// The side that is dialled.
    package struct Listener: Sendable {
        package enum Step: Hashable, Sendable {
            case more
            /// The key of this endpoint fits. It is proved only by the handshake that follows.
            case known(EndpointID)
            case pairing
            case refused
        }

        private let own: EndpointID
        private let challenge: [UInt8]
        private var received: [UInt8] = []

        package init(own: EndpointID, using random: inout some RandomNumberGenerator) {
            self.own = own
            challenge = randomBytes(Knock.challengeBytes, using: &random)
        }

        /// What is sent first.
        package var greeting: [UInt8] { Knock.magic + challenge }

        /// - Parameters:
        ///   - bytes: All that has arrived since the last call. More than a whole answer is refused: the dialer waits.
        ///   - keys: Those of the endpoints that may dial. They are asked for once an answer is whole.
        package mutating func receive(_ bytes: some Collection<UInt8>, _ keys: @autoclosure () -> [EndpointID: PairKeys]) -> Step {
            guard received.count + bytes.count <= answerBytes else { return .refused }
            received += bytes
            guard Knock.magic.starts(with: received.prefix(Knock.magic.count)) else { return .refused }
            guard received.count == answerBytes else { return .more }
            guard let kind = Knock.Kind(rawValue: received[Knock.magic.count]) else { return .refused }
            guard kind == .known else { return .pairing }
            let nonce = Array(received.dropFirst(Knock.magic.count + 1).prefix(Knock.nonceBytes))
            let proof = Array(received.suffix(Knock.proofBytes))
            // All are tried, so that the time says nothing.
            var found: EndpointID?
            for (peer, keys) in keys() {
                let knock = Knock(challenge: challenge, kind: kind, nonce: nonce, dialer: peer, listener: own)
                if keys.isValid(proof, for: knock) { found = peer }
            }
            return found.map(Step.known) ?? .refused
        }
    }

    /// The side that dials.
    package struct Dialer: Sendable {
        package enum Step: Hashable, Sendable {
            case more
            case send([UInt8])
            /// The listener accepts. The handshake follows.
            case accepted
            case refused
        }

        private enum State: Hashable {
            case waiting([UInt8])
            case answered
            case over
        }

        private let kind: Knock.Kind
        private let keys: PairKeys?
        private let own: EndpointID
        private let peer: EndpointID
        private let nonce: [UInt8]
        private var state = State.waiting([])

        /// - Parameter keys: `nil` to pair, with an endpoint that shares none.
        package init(own: EndpointID, peer: EndpointID, keys: PairKeys?, using random: inout some RandomNumberGenerator) {
            (self.own, self.peer, self.keys) = (own, peer, keys)
            kind = keys == nil ? .pairing : .known
            nonce = randomBytes(Knock.nonceBytes, using: &random)
        }

        package mutating func receive(_ bytes: some Collection<UInt8>) -> Step {
            switch state {
            case .over: return .refused
            case .waiting(let before):
                let all = before + bytes
                guard all.count <= challengeBytes, Knock.magic.starts(with: all.prefix(Knock.magic.count)) else { return refuse() }
                guard all.count == challengeBytes else {
                    state = .waiting(all)
                    return .more
                }
                state = .answered
                let challenge = Array(all.suffix(Knock.challengeBytes))
                let knock = Knock(challenge: challenge, kind: kind, nonce: nonce, dialer: own, listener: peer)
                // Without keys, the bytes of the proof are there and say nothing.
                let proof = keys?.proof(of: knock) ?? Array(repeating: 0, count: Knock.proofBytes)
                return .send(Knock.magic + [kind.rawValue] + nonce + proof)
            case .answered:
                // The handshake is the dialer's to begin.
                guard bytes.elementsEqual([accepted]) else { return bytes.isEmpty ? .more : refuse() }
                state = .over
                return .accepted
            }
        }

        private mutating func refuse() -> Step {
            state = .over
            return .refused
        }
    }
}
