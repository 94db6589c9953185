// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@testable import Torture

/// A short run of `scripts/torture`, and tests of its ledger.
@Suite(.timeLimit(.minutes(10))) struct TortureTests {
    @Test func nothingIsLostWhenProcessesAreKilled() async throws {
        // On a busy machine a run can end before a target has fallen asleep.
        var hasSlept = false
        for seed in 7..<10 where !hasSlept {
            hasSlept = try await torture("--kills", "6", "--naps", "4", seed: seed).contains("; 0 naps") == false
        }
        #expect(hasSlept)
    }

    @Test func nothingUntrueIsSaidWhenStoredStateGoesBack() async throws {
        let text = try await torture("--kills", "0", "--naps", "0", "--restores", "6", seed: 11)
        #expect(text.contains("6 kills"))
    }

    @Test(.enabled(if: PostgresServer.isPossible)) func nothingIsLostWhenNodesAndTheirDatabaseFail() async throws {
        let text = try await torture("--nodes", "2", "--kills", "6", "--naps", "2", seed: 5)
        #expect(text.contains("1 promotions"))
    }

    /// - Returns: What the run tells.
    private func torture(_ faults: String..., seed: Int) async throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "Torture")
        process.arguments = ["--commands", "60", "--senders", "2", "--targets", "2", "--seed", "\(seed)"] + faults
        let ended = try await ProcessRun.run(process, within: .seconds(600))
        let text = ended.output + ended.error
        #expect(ended.status == 0, "\(text)")
        return text
    }

    // MARK: The ledger

    /// A command that a handler has accepted and whose sender knows the outcome.
    private func ledger(_ issues: [Errand] = [Errand(number: 0, sender: 0, target: 0, isMessage: false, life: 3_600_000)]) -> Ledger {
        var ledger = Ledger(issues)
        for issue in issues {
            ledger.submitted(issue.number, as: "\(issue.number)", expires: 5_000)
            ledger.accepted("\(issue.number)")
        }
        return ledger
    }

    private func learned(_ ending: Ending, byTarget: Bool = true) -> Learned { Learned(ending: ending, byTarget: byTarget) }

    @Test func correctHistoryHasNoViolations() {
        var ledger = ledger()
        ledger.started(0, at: 1)
        ledger.handled(0, .succeeded)
        // `ended` returns `true` only for the first report.
        let isNews = (0..<2).map { _ in ledger.ended("0", learned(.succeeded)) }
        #expect(isNews == [true, false])
        #expect(ledger.violations.isEmpty)
    }

    @Test func everyViolationIsDetected() {
        func broken(_ body: (inout Ledger) -> Void, sourceLocation: SourceLocation = #_sourceLocation) {
            var ledger = ledger()
            body(&ledger)
            #expect(!ledger.violations.isEmpty, sourceLocation: sourceLocation)
        }
        // No outcome.
        broken { _ in }
        // Two outcomes.
        broken {
            $0.started(0, at: 1)
            $0.handled(0, .succeeded)
            _ = $0.ended("0", learned(.succeeded))
            _ = $0.ended("0", learned(.interrupted))
        }
        // Handled twice.
        broken {
            $0.started(0, at: 1)
            $0.started(0, at: 2)
            $0.handled(0, .succeeded)
            _ = $0.ended("0", learned(.succeeded))
        }
        // Handled after it expired.
        broken {
            $0.started(0, at: 7_000)
            $0.handled(0, .succeeded)
            _ = $0.ended("0", learned(.succeeded))
        }
        // Not handled, or handled with another answer.
        broken { _ = $0.ended("0", learned(.succeeded)) }
        broken {
            $0.started(0, at: 1)
            $0.handled(0, .declined)
            _ = $0.ended("0", learned(.succeeded))
        }
        // Attested by the relay instead of the target.
        broken {
            $0.started(0, at: 1)
            $0.handled(0, .succeeded)
            _ = $0.ended("0", learned(.succeeded, byTarget: false))
        }
        // Handled, but reported as not handled.
        broken {
            $0.started(0, at: 1)
            _ = $0.ended("0", learned(.expired))
        }
        // Accepted and then refused; cancelled, expired or interrupted without a reason.
        for ending in [Ending.refused, .cancelled, .expired, .interrupted, .targetLost, .timedOut] {
            broken { _ = $0.ended("0", learned(ending)) }
        }
    }

    @Test func stateThatGoesBackExcusesOnlyWhatItExplains() {
        func isKept(_ party: Party, _ body: (inout Ledger) -> Void) -> Bool {
            var ledger = ledger()
            ledger.wentBack(party, ordered: [])
            body(&ledger)
            return ledger.violations.isEmpty
        }
        func runs(_ ledger: inout Ledger) {
            ledger.started(0, at: 1)
            ledger.handled(0, .succeeded)
        }
        // A target can run a command again; the others' state does not matter for that.
        for (party, isExcused) in [(Party.target(0), true), (.target(1), false), (.sender(0), false), (.relayd(0), false)] {
            let isFine = isKept(party) {
                runs(&$0)
                runs(&$0)
                _ = $0.ended("0", learned(.succeeded))
            }
            #expect(isFine == isExcused, "\(party)")
        }
        // The relay never states falsely that a command has not run, and a sender learns so only instead of an end that it has lost.
        let isExpiredByRelay = isKept(.relayd(0)) {
            runs(&$0)
            _ = $0.ended("0", learned(.expired, byTarget: false))
        }
        #expect(!isExpiredByRelay)
        for hasEnded in [true, false] {
            let isFine = isKept(.sender(0)) {
                runs(&$0)
                if hasEnded {
                    _ = $0.ended("0", learned(.succeeded))
                    $0.reopened(0)
                }
                _ = $0.ended("0", learned(.forgotten))
            }
            #expect(isFine)
        }
        // Nobody invents an answer.
        for party in [Party.target(0), .sender(0), .relayd(0)] {
            #expect(!isKept(party) { _ = $0.ended("0", learned(.succeeded)) })
        }
        // A sender without the command tells nothing of it.
        #expect(isKept(.sender(0)) { $0.lost(0) })
    }

    @Test func wrongOrderIsDetected() {
        let issues = (0..<2).map { Errand(number: $0, sender: 0, target: 0, isMessage: false, life: 3_600_000) }
        for order in [[0, 1], [1, 0]] {
            var ledger = ledger(issues)
            for number in order {
                ledger.started(number, at: 1)
                ledger.handled(number, .succeeded)
                _ = ledger.ended("\(number)", learned(.succeeded))
            }
            #expect(ledger.violations.isEmpty == (order == [0, 1]))
        }
    }

    @Test func planIsDeterminedByItsSeed() {
        let plans = [1, 1, 2].map { Plan(seed: $0, commands: 50, senders: 2, targets: 3, kills: 9) }
        #expect(plans[0].issues == plans[1].issues)
        #expect(plans[0].strikes.map(\.progress) == plans[1].strikes.map(\.progress))
        #expect(plans[0].issues != plans[2].issues)
        #expect(plans[0].strikes.count == 9)
    }
}
