// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Two endpoints prove to each other that they have the same code, one bit in each round. Without I/O.
///
/// ```text
/// caller  commit(round, HMAC of the bit with a fresh nonce)    answer: the shower's HMAC of the bit with a fresh nonce
/// caller  reveal(round, the caller's nonce)                    answer: the shower's nonce
/// ```
///
/// Both have committed to a bit before either reveals it, so that nobody chooses his own after he has seen the other's. Who does not have the
/// code guesses each bit; a wrong guess ends the attempt, but tells him the bit. So a code serves one attempt on each side, and a man in the
/// middle, who has one with each, may guess wrong once: he pairs with one of them for 28 of the 100,000,000 codes.
package enum CodePairing {
    /// How long an attempt may take, on both sides.
    package static let patience: Int64 = 30_000

    /// A side's part in a round.
    private struct Round: Hashable {
        let number: UInt8
        let nonce: [UInt8]

        init(number: UInt8, using random: inout some RandomNumberGenerator) {
            self.number = number
            nonce = randomBytes(PairingHash.byteCount, using: &random)
        }
    }

    /// What both sides compute from the code and the ids.
    private struct Sides: Hashable {
        /// One for each round, 1 to 256.
        let bits: Secret<[Bool]>
        let hash: PairingHash

        func commitment(_ role: PairingRole, _ round: Round) -> [UInt8] {
            hash.commitment(role, round: round.number, bit: bits.exposed[Int(round.number)], nonce: round.nonce)
        }

        func isValid(_ commitment: [UInt8], _ role: PairingRole, _ round: UInt8, nonce: [UInt8]) -> Bool {
            hash.isValid(commitment, role, round: round, bit: bits.exposed[Int(round)], nonce: nonce)
        }

        /// - Returns: `nil` after the last one.
        func round(after round: UInt8) -> UInt8? { Int(round) + 1 < bits.exposed.count ? round + 1 : nil }
    }

    /// The side on which a person types the code.
    package struct Caller: Sendable {
        package enum Step: Hashable, Sendable {
            case call(PairingRequest)
            /// The peer has the code, too.
            case paired
            case failed(PairingError)
        }

        private enum State: Hashable {
            /// Has sent the commitment.
            case committed(Round)
            /// Has sent the nonce, and holds the other's commitment.
            case revealed(Round, other: [UInt8])
            case ended
        }

        /// When the attempt ends at the latest. Then nothing that arrives counts.
        package let deadline: Milliseconds
        /// What is called first.
        package let opening: PairingRequest
        private let sides: Sides
        private var state: State

        /// - Parameters:
        ///   - code: None of which an attempt has already sent a nonce: each further attempt would give a man in the middle one more guess.
        ///   - peer: The id that TLS has proved.
        ///   - random: It must be cryptographic.
        /// - Throws: `ownDevice`.
        package init(
            code: PairingCode,
            own: EndpointID,
            peer: EndpointID,
            at now: Milliseconds,
            using random: inout some RandomNumberGenerator
        ) throws(PairingError) {
            try self.init(bits: code.roundBits, own: own, peer: peer, at: now, using: &random)
        }

        /// - Parameter bits: One for each round, 1 to 256.
        init(
            bits: [Bool],
            own: EndpointID,
            peer: EndpointID,
            at now: Milliseconds,
            using random: inout some RandomNumberGenerator
        ) throws(PairingError) {
            sides = Sides(bits: Secret(bits), hash: try PairingHash(caller: own, shower: peer))
            deadline = Milliseconds(clamping: now.count + patience)
            let first = Round(number: 0, using: &random)
            opening = PairingRequest(.commit, sides.commitment(.calls, first))
            state = .committed(first)
        }

        /// - Parameter random: It must be cryptographic.
        package mutating func receive(
            _ answer: PairingAnswer,
            at now: Milliseconds,
            using random: inout some RandomNumberGenerator
        ) -> Step {
            do throws(PairingError) {
                guard now < deadline else { throw .timedOut }
                return try proceed(try answer.accepted(), using: &random)
            } catch {
                state = .ended
                return .failed(error)
            }
        }

        private mutating func proceed(
            _ value: [UInt8],
            using random: inout some RandomNumberGenerator
        ) throws(PairingError) -> Step {
            switch state {
            case .ended: throw .invalidMessage
            case .committed(let round):
                state = .revealed(round, other: value)
                return .call(PairingRequest(.reveal, round: Int(round.number), round.nonce))
            case .revealed(let round, let other):
                guard sides.isValid(other, .shows, round.number, nonce: value) else { throw .wrong }
                guard let number = sides.round(after: round.number) else {
                    state = .ended
                    return .paired
                }
                let next = Round(number: number, using: &random)
                state = .committed(next)
                return .call(PairingRequest(.commit, round: Int(number), sides.commitment(.calls, next)))
            }
        }
    }

    /// The side that shows the code. `PairingOffer` says when it may be used.
    package struct Shower: Hashable, Sendable {
        package enum Step: Hashable, Sendable {
            case answer([UInt8])
            /// The peer has the code, too. It learns the same from this answer.
            case paired([UInt8])
            case failed
        }

        private enum State: Hashable {
            /// The commitment of this round is to come.
            case waits(UInt8)
            /// Has sent its commitment, and holds the caller's.
            case committed(Round, other: [UInt8])
            case ended
        }

        private let sides: Sides
        private var state = State.waits(0)

        /// - Parameter caller: The id that TLS has proved.
        /// - Throws: `ownDevice`.
        package init(code: PairingCode, own: EndpointID, caller: EndpointID) throws(PairingError) {
            try self.init(bits: code.roundBits, own: own, caller: caller)
        }

        /// - Parameter bits: One for each round, 1 to 256.
        init(bits: [Bool], own: EndpointID, caller: EndpointID) throws(PairingError) {
            sides = Sides(bits: Secret(bits), hash: try PairingHash(caller: caller, shower: own))
        }

        /// - Parameter random: It must be cryptographic.
        package mutating func receive(_ request: PairingRequest, using random: inout some RandomNumberGenerator) -> Step {
            let before = state
            state = .ended
            guard request.value.count == PairingHash.byteCount else { return .failed }
            switch (before, request.step) {
            case (.waits(let number), .commit) where request.round == number:
                let round = Round(number: number, using: &random)
                state = .committed(round, other: request.value)
                return .answer(sides.commitment(.shows, round))
            case (.committed(let round, let other), .reveal) where request.round == round.number:
                guard sides.isValid(other, .calls, round.number, nonce: request.value) else { return .failed }
                guard let next = sides.round(after: round.number) else { return .paired(round.nonce) }
                state = .waits(next)
                return .answer(round.nonce)
            default: return .failed
            }
        }
    }
}
