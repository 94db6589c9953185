// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// What somebody without the code can do, on the way between two devices that pair.
@Suite struct PairingAttackTests {
    /// The ids of the two connections differ, so that what one side makes never fits for the other.
    @Test(arguments: 0..<40 as Range<UInt64>) func relayedMessagesAreRefused(seed: UInt64) throws {
        var world = PairingWorld(seed: seed)
        var (caller, shower) = (try world.caller(to: world.stranger), try world.shower(to: world.stranger))
        #expect(caller.run(with: &shower, using: &world.random) == PairingResult(caller: .wrong, calls: 2))
    }

    /// A stranger who answers with what the caller has sent: the role is in each commitment.
    @Test func reflectedMessagesAreRefused() throws {
        var world = PairingWorld(seed: 1)
        var caller = try world.caller(to: world.stranger)
        let result = caller.run(using: &world.random) { request, _ in PairingAnswer(.accepted, request.value) }
        #expect(result == PairingResult(caller: .wrong, calls: 2))
    }

    /// A stranger who commits to what the shower has committed to needs that before his own commitment; so he takes it from another round.
    @Test func repeatedMessagesOfTheShowerAreRefused() throws {
        var world = PairingWorld(seed: 1)
        var shower = try world.shower(to: world.stranger)
        guard case .answer(let commitment) = shower.receive(world.commit(0, to: shower, by: world.code), using: &world.random),
            case .answer(let nonce) = shower.receive(PairingRequest(.reveal, world.nonce), using: &world.random)
        else { throw Unexpected() }
        #expect(shower.receive(PairingRequest(.commit, round: 1, commitment), using: &world.random) != .failed)
        #expect(shower.receive(PairingRequest(.reveal, round: 1, nonce), using: &world.random) == .failed)
    }

    /// A device that repeats its own commitment and nonce of round 0 in round 1, where the bit is the same: the round is in each commitment.
    @Test(arguments: [0, 1] as [UInt8]) func messagesOfAnotherRoundAreRefused(madeFor round: UInt8) throws {
        var world = PairingWorld(seed: 1)
        let (bits, hash) = ([true, true], try PairingHash(caller: world.phone, shower: world.screen))
        func commitment(_ role: PairingRole, _ round: UInt8) -> [UInt8] {
            hash.commitment(role, round: round, bit: true, nonce: world.nonce)
        }
        var shower = try CodePairing.Shower(bits: bits, own: world.screen, caller: world.phone)
        var (isPaired, last) = (false, PairingAnswer(.busy))
        for (number, value) in [commitment(.calls, 0), commitment(.calls, round)].enumerated() {
            _ = shower.answer(PairingRequest(.commit, round: number, value), &isPaired, using: &world.random)
            last = shower.answer(PairingRequest(.reveal, round: number, world.nonce), &isPaired, using: &world.random)
        }
        #expect(isPaired == (round == 1) && last.state == (round == 1 ? .accepted : .wrong))

        var caller = try CodePairing.Caller(bits: bits, own: world.phone, peer: world.screen, at: 0, using: &world.random)
        let answers = [commitment(.shows, 0), world.nonce, commitment(.shows, round), world.nonce]
        var rest = answers[...]
        let result = caller.run(using: &world.random) { _, _ in PairingAnswer(.accepted, rest.popFirst()) }
        #expect(result == PairingResult(caller: round == 1 ? nil : .wrong, calls: 4))
    }

    /// The messages of a whole honest attempt, once more: the nonces of the answers are others.
    @Test(arguments: 0..<10 as Range<UInt64>) func replayedAttemptIsRefused(seed: UInt64) throws {
        var world = PairingWorld(seed: seed)
        var (caller, shower, isPaired) = (try world.caller(), try world.shower(), false)
        var answers: [PairingAnswer] = []
        let first = caller.run(using: &world.random) { request, random in
            answers.append(shower.answer(request, &isPaired, using: &random))
            return answers.last ?? PairingAnswer(.wrong)
        }
        #expect(first.caller == nil && isPaired)
        // To a caller with another code, as each attempt has. The ids are the same, as if the keys were stolen.
        var place = -1
        var again = try world.caller(world.wrongCode(for: world.code))
        let second = again.run(using: &world.random) { _, _ in
            place += 1
            return answers[place]
        }
        #expect(second.caller == .wrong)
    }

    // MARK: Guesses

    private static let rounds = 5

    /// All codes of few rounds.
    private static let codes = (0..<1 << rounds).map { number in (0..<rounds).map { number >> $0 & 1 == 1 } }

    /// A stranger who has one connection with each side, and a bit for each round that he guesses.
    private struct Stranger {
        var random = SeededGenerator(seed: 1)
        var caller: CodePairing.Caller?
        var shower: CodePairing.Shower?
        var isPaired = false
        private var request: PairingRequest
        private let (toCaller, toShower): (PairingHash, PairingHash)

        init(_ code: [Bool]) throws {
            let world = PairingWorld(seed: 1)
            let caller = try CodePairing.Caller(bits: code, own: world.phone, peer: world.stranger, at: 0, using: &random)
            shower = try CodePairing.Shower(bits: code, own: world.screen, caller: world.stranger)
            request = caller.opening
            self.caller = caller
            toCaller = try PairingHash(caller: world.phone, shower: world.stranger)
            toShower = try PairingHash(caller: world.stranger, shower: world.screen)
        }

        /// - Returns: The bit, which the caller's nonce gives away in any case.
        mutating func ask(callerWith bit: Bool, _ round: UInt8) throws -> Bool? {
            guard var caller else { return nil }
            let (nonce, theirs) = (random.bytes(32), request.value)
            let own = toCaller.commitment(.shows, round: round, bit: bit, nonce: nonce)
            guard case .call(let reveal) = caller.receive(PairingAnswer(.accepted, own), at: 0, using: &random) else { throw Unexpected() }
            let found = toCaller.isValid(theirs, .calls, round: round, bit: true, nonce: reveal.value)
            switch caller.receive(PairingAnswer(.accepted, nonce), at: 0, using: &random) {
            case .call(let next): (request, self.caller) = (next, caller)
            case .paired: (isPaired, self.caller) = (true, caller)
            case .failed: self.caller = nil
            }
            return found
        }

        /// - Returns: The bit, which the end of the attempt gives away, too.
        mutating func ask(showerWith bit: Bool, _ round: UInt8) throws -> Bool? {
            guard var shower else { return nil }
            let nonce = random.bytes(32)
            let own = toShower.commitment(.calls, round: round, bit: bit, nonce: nonce)
            guard case .answer = shower.receive(PairingRequest(.commit, round: Int(round), own), using: &random) else { throw Unexpected() }
            switch shower.receive(PairingRequest(.reveal, round: Int(round), nonce), using: &random) {
            case .answer: self.shower = shower
            case .paired: (isPaired, self.shower) = (true, shower)
            case .failed:
                self.shower = nil
                return !bit
            }
            return bit
        }
    }

    /// Exactly one guess of all is right, with either side: 2^-n for n rounds.
    @Test func strangerWithOneSideNeedsTheWholeCode() throws {
        for code in [Self.codes[0], Self.codes[11], Self.codes[31]] {
            var (asCaller, asShower) = (0, 0)
            for guess in Self.codes {
                var (one, other) = (try Stranger(code), try Stranger(code))
                for (round, bit) in guess.enumerated() {
                    _ = try one.ask(showerWith: bit, UInt8(round))
                    _ = try other.ask(callerWith: bit, UInt8(round))
                }
                asCaller += one.isPaired ? 1 : 0
                asShower += other.isPaired ? 1 : 0
            }
            #expect(asCaller == 1 && asShower == 1)
        }
    }

    /// With both sides he guesses each bit at one of them and knows it at the other. He may be wrong once, and then has lost only one of the
    /// two: n + 1 guesses of 2^n, whichever side he asks first in each round.
    @Test func manInTheMiddleMayBeWrongOnce() throws {
        for code in [Self.codes[0], Self.codes[22]] {
            for order in Self.codes {
                var wins = 0
                for guess in Self.codes {
                    var stranger = try Stranger(code)
                    for round in 0..<Self.rounds {
                        let (number, asksCaller) = (UInt8(round), order[round])
                        let first =
                            asksCaller
                            ? try stranger.ask(callerWith: guess[round], number) : try stranger.ask(showerWith: guess[round], number)
                        let bit = first ?? guess[round]
                        #expect(first == nil || first == code[round])
                        _ = asksCaller ? try stranger.ask(showerWith: bit, number) : try stranger.ask(callerWith: bit, number)
                    }
                    wins += stranger.isPaired ? 1 : 0
                }
                #expect(wins == Self.rounds + 1, "\(order)")
            }
        }
    }

    /// The contract is 1 in 500,000 for all attempts of an offer.
    @Test func threeAttemptsKeepTheContract() {
        let wins = PairingOffer.maximumFailures * (PairingCode.bits + 1)
        #expect(wins == 84 && wins * 500_000 <= 100_000_000)
    }

    private struct Unexpected: Error {}

    // MARK: Generated sequences

    /// A stranger with a wrong code, who mostly does what an honest device would, and otherwise sends anything that he has seen, made, or
    /// proved to another device. Nobody is paired with him.
    @Test func noSequenceOfMessagesPairs() throws {
        var (furthest, ends) = (0, 0)
        for seed in 0..<60 as Range<UInt64> {
            var attack = try GeneratedAttack(seed: seed)
            for _ in 0..<400 { try attack.step() }
            #expect(!attack.isPaired, "seed \(seed)")
            (furthest, ends) = (max(furthest, attack.furthest), ends + attack.ends)
        }
        // He comes as far as his guesses are right.
        #expect(furthest > 5 && furthest < 2 * PairingCode.bits && ends > 60)
    }

    private struct GeneratedAttack {
        var world: PairingWorld
        var isPaired = false
        /// The most calls of an attempt that were accepted, on either side.
        var furthest = 0
        var ends = 0
        private var offer: PairingOffer
        private var caller: CodePairing.Caller
        private var (now, connection) = (Int64(0), UInt64(0))
        private var (shown, asked) = (0, 0)
        private var (nonceToShower, nonceToCaller) = ([UInt8](), [UInt8]())
        private var seen: [[UInt8]]
        private let guess: PairingCode
        private let (toShower, toCaller): (PairingHash, PairingHash)

        init(seed: UInt64) throws {
            var world = PairingWorld(seed: seed)
            offer = world.offer()
            caller = try world.caller(to: world.stranger)
            guess = world.wrongCode(for: world.code)
            toShower = try PairingHash(caller: world.stranger, shower: world.screen)
            toCaller = try PairingHash(caller: world.phone, shower: world.stranger)
            seen = [[], world.random.bytes(31), world.random.bytes(32), world.random.bytes(33)]
            self.world = world
        }

        mutating func step() throws {
            now += Int64.random(in: 0...1_000, using: &world.random)
            if world.random.oneIn(40) {
                note(offer.closed(.init(world.stranger, connection: connection), using: &world.random))
                connection += 1
            }
            if Bool.random(using: &world.random) { try callShower() } else { try answerCaller() }
        }

        private mutating func value(_ honest: [UInt8]) -> [UInt8] {
            seen.append(honest)
            return world.random.oneIn(12) ? seen[max(0, seen.count - Int.random(in: 1...16, using: &world.random))] : honest
        }

        private mutating func callShower() throws {
            let (round, isCommit) = (UInt8(shown / 2), shown % 2 == 0)
            if isCommit { nonceToShower = world.random.bytes(32) }
            let honest =
                isCommit
                ? toShower.commitment(.calls, round: round, bit: guess.roundBits[Int(round)], nonce: nonceToShower) : nonceToShower
            var request = PairingRequest(isCommit ? .commit : .reveal, round: Int(round), value(honest))
            if world.random.oneIn(30) { request.step = [.commit, .reveal, .prove].randomElement(using: &world.random) ?? .prove }
            if world.random.oneIn(30) { request.round = Int.random(in: -1...PairingCode.bits + 1, using: &world.random) }
            let asker = PairingOffer.Caller(world.stranger, connection: connection)
            let reply = offer.receive(request, from: asker, at: Milliseconds(clamping: now), using: &world.random)
            note(reply.actions)
            if let value = reply.answer.value { seen.append(value) }
            shown = reply.answer.state == .accepted ? shown + 1 : 0
            furthest = max(furthest, shown)
            guard reply.answer.state == .notPairing else { return }
            offer = world.offer(at: Milliseconds(clamping: now))
        }

        private mutating func answerCaller() throws {
            let (round, isCommit) = (UInt8(asked / 2), asked % 2 == 0)
            if isCommit { nonceToCaller = world.random.bytes(32) }
            let honest =
                isCommit
                ? toCaller.commitment(.shows, round: round, bit: guess.roundBits[Int(round)], nonce: nonceToCaller) : nonceToCaller
            switch caller.receive(PairingAnswer(.accepted, value(honest)), at: 0, using: &world.random) {
            case .call(let next):
                seen.append(next.value)
                asked += 1
            case .paired: isPaired = true
            case .failed:
                asked = 0
                caller = try world.caller(to: world.stranger)
                seen.append(caller.opening.value)
            }
            furthest = max(furthest, asked)
        }

        private mutating func note(_ actions: [PairingOffer.Action]) {
            for action in actions {
                switch action {
                case .paired: isPaired = true
                case .ended: ends += 1
                case .show: break
                }
            }
        }
    }
}

extension PairingWorld {
    /// A nonce that a stranger uses in all rounds.
    fileprivate var nonce: [UInt8] { Array(repeating: 7, count: 32) }

    fileprivate func commit(_ round: Int, to shower: CodePairing.Shower, by code: PairingCode) -> PairingRequest {
        let value = (try? PairingHash(caller: stranger, shower: screen))?
            .commitment(.calls, round: UInt8(round), bit: code.roundBits[round], nonce: nonce)
        return PairingRequest(.commit, round: round, value ?? [])
    }
}
