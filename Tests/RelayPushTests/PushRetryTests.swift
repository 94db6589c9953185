// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayPush

@Suite struct PushRetryTests {
    private func step(_ outcome: PushOutcome, after earlier: [PushOutcome] = [], remaining: Int64 = .max) -> PushRetry.Step {
        var retry = PushRetry()
        for outcome in earlier { _ = retry.step(after: outcome, remaining: remaining, random: { $0 }) }
        return retry.step(after: outcome, remaining: remaining, random: { $0 })
    }

    @Test func whatIsFinal() {
        #expect(step(.accepted(id: "1")) == .finish)
        #expect(step(.gone(since: 5)) == .removeRegistration(since: 5))
        #expect(step(.misconfigured(reason: "topic")) == .stopCredential(reason: "topic"))
        #expect(step(.mismatched(reason: "sender")) == .suspendRegistration(reason: "sender", for: 3_600_000))
        #expect(step(.dropped(reason: "off")) == .drop(reason: "off"))
        #expect(step(.invalid(reason: "size")) == .reject(reason: "size"))
        #expect(step(.forbidden(reason: "host")) == .reject(reason: "host"))
    }

    @Test func aCredentialIsRenewedOnce() {
        let rejected = PushOutcome.credentialRejected(reason: "key")
        #expect(step(rejected) == .renewCredential)
        #expect(step(rejected, after: [rejected]) == .stopCredential(reason: "key"))
        #expect(step(.accepted(id: nil), after: [rejected]) == .finish)
    }

    @Test func aProvidersPauseIsKept() {
        #expect(step(.throttled(scope: .registration, wait: 20_000)) == .pause(.registration, for: 22_000, isLast: false))
        // 60 s without a number, an hour at most.
        #expect(step(.throttled(scope: .credential, wait: nil)) == .pause(.credential, for: 66_000, isLast: false))
        #expect(step(.throttled(scope: .credential, wait: .max)) == .pause(.credential, for: 3_960_000, isLast: false))
        #expect(step(.throttled(scope: .credential, wait: -5)) == .pause(.credential, for: 0, isLast: false))
        // A provider that asks for pauses without end is asked a few times.
        let throttled = PushOutcome.throttled(scope: .registration, wait: 0)
        #expect(step(throttled, after: Array(repeating: throttled, count: 4)) == .pause(.registration, for: 0, isLast: true))
    }

    @Test func failuresAreTriedAgainAFewTimes() {
        let failed = PushOutcome.failed(reason: "503")
        #expect(step(failed) == .retry(after: 10_000))
        #expect(step(failed, after: [failed]) == .retry(after: 20_000))
        #expect(step(failed, after: [failed, failed]) == .retry(after: 40_000))
        #expect(step(failed, after: [failed, failed, failed]) == .retry(after: 80_000))
        #expect(step(failed, after: [failed, failed, failed, failed]) == .leave(reason: "503"))
        // Not past the end of what waits.
        #expect(step(failed, remaining: 9_999) == .leave(reason: "503"))
    }
}
