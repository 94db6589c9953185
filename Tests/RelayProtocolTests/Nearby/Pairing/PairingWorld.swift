// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting

@testable import RelayProtocol

/// Two endpoints that pair, and one that should not.
struct PairingWorld {
    var random: SeededGenerator
    let (phone, screen, stranger): (EndpointID, EndpointID, EndpointID)
    let code: PairingCode

    init(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        func id() -> EndpointID { EndpointID(digest: Digest256(hashing: random.bytes(32))) }
        (phone, screen, stranger) = (id(), id(), id())
        code = PairingCode(using: &random)
        self.random = random
    }

    /// The phone types the code.
    mutating func caller(_ code: PairingCode? = nil, to peer: EndpointID? = nil) throws -> CodePairing.Caller {
        try CodePairing.Caller(code: code ?? self.code, own: phone, peer: peer ?? screen, at: 0, using: &random)
    }

    /// The screen shows the code.
    func shower(_ code: PairingCode? = nil, to caller: EndpointID? = nil) throws -> CodePairing.Shower {
        try CodePairing.Shower(code: code ?? self.code, own: screen, caller: caller ?? phone)
    }

    mutating func offer(at now: Milliseconds = 0) -> PairingOffer { PairingOffer(own: screen, at: now, using: &random) }

    /// A code that differs from another one.
    mutating func wrongCode(for code: PairingCode) -> PairingCode {
        while true {
            let other = PairingCode(using: &random)
            if other != code { return other }
        }
    }
}

/// How an attempt has ended, for each side.
struct PairingResult: Hashable {
    /// `nil` if the caller is paired.
    var caller: PairingError?
    var shower = false
    var calls = 0

    static let paired = PairingResult(caller: nil, shower: true, calls: 2 * PairingCode.bits)
    var isPaired: Bool { caller == nil || shower }
}

extension CodePairing.Shower {
    /// The answer as `PairingOffer` gives it.
    mutating func answer(_ request: PairingRequest, _ isPaired: inout Bool, using random: inout SeededGenerator) -> PairingAnswer {
        switch receive(request, using: &random) {
        case .answer(let value): return PairingAnswer(.accepted, value)
        case .paired(let value):
            isPaired = true
            return PairingAnswer(.accepted, value)
        case .failed: return PairingAnswer(.wrong)
        }
    }
}

extension CodePairing.Caller {
    /// Runs an attempt to its end.
    mutating func run(
        at now: Milliseconds = 0,
        using random: inout SeededGenerator,
        _ answer: (PairingRequest, inout SeededGenerator) -> PairingAnswer
    ) -> PairingResult {
        var (request, result) = (opening, PairingResult())
        while true {
            result.calls += 1
            let answer = answer(request, &random)
            switch receive(answer, at: now, using: &random) {
            case .call(let next): request = next
            case .paired: return result
            case .failed(let error):
                result.caller = error
                return result
            }
        }
    }

    mutating func run(with shower: inout CodePairing.Shower, using random: inout SeededGenerator) -> PairingResult {
        var isPaired = false
        var result = run(using: &random) { shower.answer($0, &isPaired, using: &$1) }
        result.shower = isPaired
        return result
    }
}
