// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// Invariants, checked where they could be violated.
extension CommandWorld {
    mutating func handle(_ command: CommandDescriptor, _ target: Int) {
        targets[target].handlers.append(command)
        let isNew = history.handled.insert(command.key).inserted
        if now >= command.expires { violations.append("handled after its expiry") }
        // A target whose journal has gone back does not know these, unless the relay tells.
        if !mayBeHandledAgain(command.key) {
            if !isNew { violations.append("handled twice") }
            if let last = history.lastHandled[command.lane], command.number <= last { violations.append("handled out of order") }
            if history.answered.contains(command.digest) { violations.append("handled after its result was sent") }
            if history.reportedNotRun.contains(command.key), !history.reopened.contains(command.key) {
                violations.append("handled after it was reported as not run")
            }
        }
        history.lastHandled[command.lane] = command.number
        if targets[target].stored[command.key]?.state != .handling { violations.append("handled without a word in the store") }
    }

    private func mayBeHandledAgain(_ key: CommandKey) -> Bool {
        (relayKeepsItsMemory ? history.unconfirmed : history.lostByTarget).contains(key)
    }

    /// Checks the commit of a sender's row, which the app learns of now or after a crash.
    mutating func checkCommit(_ row: SentCommand, after old: SentCommand?) {
        let key = row.command.key
        if let old, old.isEnded, old.state != row.state { violations.append("a second outcome: \(old.state), \(row.state)") }
        guard old?.isEnded != true else { return }
        switch row.state {
        // It is signed again after its target has said that its number had passed: the relay has not accepted the new bytes.
        case .prepared where history.hasGoneBack: history.accepted.remove(key)
        case .prepared, .queued, .sent: break
        case .accepted: history.accepted.insert(key)
        case .withdrawn: tellNotRun(key, "withdrawn")
        case .refused(let rejection):
            if history.accepted.contains(key) { violations.append("accepted, then refused") }
            history.rejections[rejection.code, default: 0] += 1
            tellNotRun(key, "refused")
        case .final(let final):
            history.outcomes[final.outcome, default: 0] += 1
            switch final.outcome {
            case .failed where final.highest != nil: tellNotRun(key, "failed", by: final.attestedBy)
            case .succeeded, .declined, .unsupported, .failed:
                let answers = history.answers[key, default: []]
                if !answers.contains(final.outcome) || final.attestedBy != .target {
                    violations.append("told \(final.outcome), answered \(answers)")
                }
            case .expired:
                // The relay may have had bytes that expire earlier: the restored state does not know that the command was signed again.
                if now < row.command.expires, !history.reopened.contains(key) { violations.append("expired too early") }
                tellNotRun(key, "expired", by: final.attestedBy)
            case .cancelled:
                tellNotRun(key, "cancelled", by: final.attestedBy)
            case .indeterminate(.forgotten) where history.hasGoneBack: break
            case .indeterminate(.forgotten) where hasPaths && history.endedByRelay.contains(key):
                history.outcomes[final.outcome, default: 0] -= 1
            case .indeterminate(.interrupted), .indeterminate(.forgotten):
                // Until then results are kept for late offers, and then the sender waits no longer.
                let isLate = hasPaths && now >= row.command.expires + CommandPeriod.grace
                if !history.begun.contains(key), !isLate { violations.append("\(final.outcome), never begun") }
                // A committed result reaches the sender, unless the relay has lost or removed its state.
                let isForgotten =
                    history.lostResults.contains(key) || now >= row.command.created + CommandPeriod.retention
                    || isLate
                if let result = history.results[key], result != final.outcome, !isForgotten, !history.hasGoneBack, !isSignedAgain(row) {
                    violations.append("\(final.outcome), but the result was \(result)")
                }
            case .indeterminate(.timedOut):
                if !history.timedOut.contains(key) { violations.append("timed out, but did not") }
            case .indeterminate(.targetLost):
                let target = targets.first { $0.id == row.command.lane.target }
                if target?.isRevoked != true, now < row.command.expires, !history.hasGoneBack, !isSignedAgain(row) {
                    violations.append("target lost too early")
                }
            }
        }
    }

    /// Two processes may sign a command again and send its old bytes at the same time; then no outcome fits the new ones.
    private func isSignedAgain(_ row: SentCommand) -> Bool { hasPaths && row.signings > 1 }

    /// - Parameter party: Who states it; `nil` for the sender itself, or the relay's refusal.
    private mutating func tellNotRun(_ key: CommandKey, _ word: String, by party: CommandAttestation? = nil) {
        history.reportedNotRun.insert(key)
        // A target that may handle the command again does not know that it ran, and may state its expiry or cancellation instead.
        let targetKnows = party != .target || !mayBeHandledAgain(key)
        if history.handled.contains(key), !history.reopened.contains(key), targetKnows { violations.append("told \(word), but it ran") }
    }
}
