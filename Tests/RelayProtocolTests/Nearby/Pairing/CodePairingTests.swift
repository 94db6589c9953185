// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct CodePairingTests {
    @Test(arguments: 0..<40 as Range<UInt64>) func devicesWithTheSameCodePair(seed: UInt64) throws {
        var world = PairingWorld(seed: seed)
        var (caller, shower) = (try world.caller(), try world.shower())
        #expect(caller.run(with: &shower, using: &world.random) == .paired)
    }

    @Test(arguments: ["00000000", "99999999", "67108863", "67108864"]) func codesAtTheEdgesPair(text: String) throws {
        var world = PairingWorld(seed: 1)
        let code = try #require(PairingCode(parsing: text))
        var (caller, shower) = (try world.caller(code), try world.shower(code))
        #expect(caller.run(with: &shower, using: &world.random) == .paired)
    }

    /// The attempt ends in the first round whose bit differs, on both sides.
    private func expectRefusal(_ typed: PairingCode, _ shown: PairingCode, _ world: inout PairingWorld) throws {
        let same = zip(typed.roundBits, shown.roundBits).prefix { $0 == $1 }.count
        var (caller, shower) = (try world.caller(typed), try world.shower(shown))
        #expect(caller.run(with: &shower, using: &world.random) == PairingResult(caller: .wrong, calls: 2 * same + 2))
    }

    @Test(arguments: 0..<40 as Range<UInt64>) func wrongCodeIsRefused(seed: UInt64) throws {
        var world = PairingWorld(seed: seed)
        try expectRefusal(world.wrongCode(for: world.code), world.code, &world)
    }

    @Test(arguments: 0..<PairingCode.digits) func wrongDigitIsRefusedInEachPosition(position: Int) throws {
        var world = PairingWorld(seed: UInt64(position))
        let digits = Array(world.code.text.filter { $0 != " " })
        for digit in "0123456789" where digit != digits[position] {
            var typed = digits
            typed[position] = digit
            try expectRefusal(try #require(PairingCode(parsing: String(typed))), world.code, &world)
        }
    }

    @Test(arguments: 0..<PairingCode.bits) func wrongBitIsRefusedInEachRound(round: Int) throws {
        var world = PairingWorld(seed: UInt64(round))
        var bits = world.code.roundBits
        bits[round].toggle()
        let (phone, screen) = (world.phone, world.screen)
        var caller = try CodePairing.Caller(bits: bits, own: phone, peer: screen, at: 0, using: &world.random)
        var shower = try world.shower()
        #expect(caller.run(with: &shower, using: &world.random) == PairingResult(caller: .wrong, calls: 2 * round + 2))
        // The shower with the wrong bit, as an attacker would be: the caller sees it, too.
        let again = try CodePairing.Shower(bits: bits, own: screen, caller: phone)
        var (other, wrong) = (try world.caller(), again)
        #expect(other.run(with: &wrong, using: &world.random).isPaired == false)
    }

    @Test func everyRoundHasFreshNonces() throws {
        var world = PairingWorld(seed: 1)
        var (caller, shower) = (try world.caller(), try world.shower())
        var (values, isPaired) = ([[UInt8]](), false)
        _ = caller.run(using: &world.random) { request, random in
            let answer = shower.answer(request, &isPaired, using: &random)
            values += [request.value, answer.value ?? []]
            return answer
        }
        #expect(values.count == 4 * PairingCode.bits && Set(values).count == values.count)
        #expect(values.allSatisfy { $0.count == PairingHash.byteCount })
    }

    @Test func ownIDIsRefused() {
        var world = PairingWorld(seed: 1)
        #expect(throws: PairingError.ownDevice) { try world.caller(to: world.phone) }
        #expect(throws: PairingError.ownDevice) { try world.shower(to: world.screen) }
    }

    // MARK: Messages that no honest side sends

    /// Each way to change the request with this number.
    private static let changes: [@Sendable (PairingRequest, [PairingRequest]) -> PairingRequest] = [
        { request, _ in PairingRequest(request.step, round: request.round + 1, request.value) },
        { request, _ in PairingRequest(request.step, round: request.round - 1, request.value) },
        { request, _ in PairingRequest(request.step, round: .max, request.value) },
        { request, _ in PairingRequest(request.step, round: .min, request.value) },
        { request, _ in PairingRequest(request.step, round: request.round + 256, request.value) },
        { request, _ in PairingRequest(request.step == .commit ? .reveal : .commit, round: request.round, request.value) },
        { request, _ in PairingRequest(.prove, round: request.round, request.value) },
        { request, _ in PairingRequest(request.step, round: request.round, []) },
        { request, _ in PairingRequest(request.step, round: request.round, request.value.dropLast()) },
        { request, _ in PairingRequest(request.step, round: request.round, request.value + [0]) },
        { request, _ in PairingRequest(request.step, round: request.round, request.value + request.value) },
        { request, _ in PairingRequest(request.step, round: request.round, Array(repeating: 0, count: 1 << 20)) },
        // Twice, or one from before.
        { request, before in before.last ?? PairingRequest(.reveal, request.value) },
        { request, before in before.first ?? PairingRequest(.reveal, request.value) },
    ]

    @Test(arguments: 0..<changes.count) func changedRequestEndsTheAttempt(change: Int) throws {
        for place in 0..<2 * PairingCode.bits {
            var world = PairingWorld(seed: UInt64(place))
            var (caller, shower) = (try world.caller(), try world.shower())
            var (before, isPaired) = ([PairingRequest](), false)
            let result = caller.run(using: &world.random) { request, random in
                defer { before.append(request) }
                let sent = before.count == place ? Self.changes[change](request, before) : request
                return shower.answer(sent, &isPaired, using: &random)
            }
            #expect(result == PairingResult(caller: .wrong, calls: place + 1) && !isPaired, "place \(place)")
            // It stays so, whatever follows.
            for request in before { #expect(shower.receive(request, using: &world.random) == .failed) }
        }
    }

    @Test(arguments: [0, 1, 2, 27, 52, 53]) func changedAnswerEndsTheAttempt(place: Int) throws {
        let answers: [(PairingAnswer, PairingError)] = [
            (PairingAnswer(.accepted), .invalidMessage), (PairingAnswer(.accepted, []), .invalidMessage),
            (PairingAnswer(.accepted, Array(repeating: 0, count: 31)), .invalidMessage),
            (PairingAnswer(.accepted, Array(repeating: 0, count: 33)), .invalidMessage),
            (PairingAnswer(.wrong), .wrong), (PairingAnswer(.wrong, Array(repeating: 0, count: 32)), .wrong),
            (PairingAnswer(.busy), .busy), (PairingAnswer(.notPairing), .notPairing),
        ]
        for (changed, error) in answers {
            var world = PairingWorld(seed: UInt64(place))
            var (caller, shower) = (try world.caller(), try world.shower())
            var (count, isPaired, last) = (0, false, PairingAnswer(.wrong))
            let result = caller.run(using: &world.random) { request, random in
                defer { count += 1 }
                last = shower.answer(request, &isPaired, using: &random)
                return count == place ? changed : last
            }
            #expect(result == PairingResult(caller: error, calls: place + 1))
            #expect(caller.receive(last, at: 0, using: &world.random) == .failed(.invalidMessage))
        }
    }

    /// A value of 32 other bytes is found in the same round: a nonce by its commitment, a commitment by its nonce.
    @Test(arguments: 0..<4 * PairingCode.bits) func eachChangedValueIsRefused(place: Int) throws {
        var world = PairingWorld(seed: UInt64(place))
        var (caller, shower) = (try world.caller(), try world.shower())
        var (count, isPaired) = (0, false)
        func changed(_ value: [UInt8]?) -> [UInt8] {
            defer { count += 1 }
            var value = value ?? []
            if count == place { value[place % value.count] ^= 1 << UInt8(place % 8) }
            return value
        }
        let result = caller.run(using: &world.random) { request, random in
            let answer = shower.answer(
                PairingRequest(request.step, round: request.round, changed(request.value)),
                &isPaired,
                using: &random
            )
            return answer.state == .accepted ? PairingAnswer(.accepted, changed(answer.value)) : answer
        }
        #expect(result.caller == .wrong && result.calls <= place / 4 * 2 + 2)
        // The shower knows of the caller before the caller knows of it. What it sends in the last round can be lost without its knowledge.
        #expect(isPaired == [4 * PairingCode.bits - 3, 4 * PairingCode.bits - 1].contains(place))
    }

    @Test func lateAnswerDoesNotCount() throws {
        let deadline = Milliseconds(clamping: CodePairing.patience)
        for (now, error) in [(Milliseconds(clamping: deadline.count - 1), nil), (deadline, PairingError.timedOut)] {
            var world = PairingWorld(seed: 1)
            var (caller, shower, isPaired) = (try world.caller(), try world.shower(), false)
            #expect(caller.deadline == deadline)
            let result = caller.run(at: now, using: &world.random) { shower.answer($0, &isPaired, using: &$1) }
            #expect(result.caller == error)
            if error != nil { #expect(caller.receive(PairingAnswer(.accepted), at: 0, using: &world.random) == .failed(.invalidMessage)) }
        }
    }

    @Test func secretsAreNotPrinted() throws {
        var world = PairingWorld(seed: 1)
        let (caller, shower, offer) = (try world.caller(), try world.shower(), world.offer())
        let bits = "\(world.code.roundBits)".dropFirst().dropLast()
        var dumped = ""
        dump(caller, to: &dumped)
        dump(shower, to: &dumped)
        dump(offer, to: &dumped)
        let secrets = [String(bits), world.code.text, try #require(offer.code).text]
        for text in ["\(caller)", "\(shower)", "\(offer)", dumped] {
            #expect(!secrets.contains { text.contains($0) })
        }
    }
}
