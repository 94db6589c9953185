// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

/// An attacker between two devices, for example a hostile relay, shows each of them another endpoint in place of the real one.
@Suite struct FingerprintAttackTests {
    private let (phone, pc): ((EndpointID, SystemID), (EndpointID, SystemID))

    init() throws {
        phone = (EndpointID(try DirectorySamples.key(1).publicKey), try DirectorySamples.systemKeyID(1))
        pc = (EndpointID(try DirectorySamples.key(2).publicKey), try DirectorySamples.systemKeyID(2))
    }

    /// The examples of the proposal: IP addresses as proquints.
    @Test func wordsAreProquints() {
        let examples: [([UInt16], [String])] = [
            ([0x7F00, 0x0001], ["lusab", "babad"]), ([0x3F54, 0xDCC1], ["gutih", "tugad"]), ([0x3F76, 0x0723], ["gutuk", "bisog"]),
            ([0x8C62, 0xC18D], ["mudof", "sakat"]), ([0x0000, 0xFFFF], ["babab", "zuzuz"]),
        ]
        for (numbers, words) in examples { #expect(numbers.map(FingerprintWords.word) == words) }
        let all = Set((UInt16.min...UInt16.max).map(FingerprintWords.word))
        #expect(all.count == 1 << 16)
        #expect(all.allSatisfy { $0.utf8.count == 5 })
    }

    @Test func bothSidesShowTheSameCode() {
        let code = VerificationCode(phone, pc)
        #expect(VerificationCode(pc, phone) == code)
        #expect(code.words.count == 10)
        #expect(code.description == "\(code.first) \(code.second)")
        let fingerprints = [phone, pc].map { FingerprintWords(endpoint: $0.0, system: $0.1) }
        #expect([code.first, code.second] == fingerprints || [code.second, code.first] == fingerprints)
    }

    @Test func codesOfAManInTheMiddleDiffer() throws {
        let (one, other) = (try attacker(3), try attacker(4))
        // With the same key, or with two keys, in place of the real devices.
        for (toPhone, toPC) in [(one, one), (one, other), (other, one)] {
            #expect(VerificationCode(phone, toPhone) != VerificationCode(toPC, pc))
        }
        // Only one side is deceived.
        #expect(VerificationCode(phone, one) != VerificationCode(phone, pc))
        // The real device of the other side, with another key; and the real key on another device.
        #expect(VerificationCode(phone, (one.0, pc.1)) != VerificationCode(phone, pc))
        #expect(VerificationCode(phone, (pc.0, one.1)) != VerificationCode(phone, pc))
        #expect(VerificationCode(phone, (pc.0, phone.1)) != VerificationCode(phone, pc))
    }

    /// Each side's words depend on that side's keys alone. So an attacker needs keys with given words, not any two that are alike.
    @Test func attackersKeysDoNotChangeTheWordsOfTheVictim() throws {
        let own = FingerprintWords(endpoint: phone.0, system: phone.1)
        for number in UInt8(3)..<20 {
            let code = VerificationCode(phone, try attacker(number))
            #expect([code.first, code.second].contains(own))
        }
    }

    private func attacker(_ number: UInt8) throws -> (EndpointID, SystemID) {
        (EndpointID(try DirectorySamples.key(number).publicKey), try DirectorySamples.systemKeyID(number))
    }
}
