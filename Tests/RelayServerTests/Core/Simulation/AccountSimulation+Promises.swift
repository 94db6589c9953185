// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The promises, checked where they could be broken.
extension AccountSimulation {
    /// What really happened, which no node knows.
    struct History {
        var handled: Set<CommandKey> = []
        var lastHandled: [CommandLane: UInt64] = [:]
        /// `handling` or an outcome was committed, at the target or the relay: only then may the target report `interrupted`.
        var begun: Set<CommandKey> = []
        /// The outcomes that the target committed.
        var results: [CommandKey: CommandOutcome] = [:]
        var timedOut: Set<CommandKey> = []
        /// More than one only for a command that a restored target handled again.
        var answers: [CommandKey: Set<CommandOutcome>] = [:]
        var accepted: Set<CommandKey> = []
        /// Commands of which the sender learned that they did not run and will not run.
        var reportedNotRun: Set<CommandKey> = []
        /// Results that no target has to keep: the relay had stored them when it lost its database.
        var lostResults: Set<CommandKey> = []
        /// Commands for which the target has sent a result.
        var answered: Set<Digest256> = []
        /// Commands that the target had stored, or had answered because their number had passed.
        var taken: [CommandKey: CommandDescriptor] = [:]
        /// Commands that the target had stored, and that its restored journal does not know.
        var lostByTarget: Set<CommandKey> = []
        /// Commands that their sender's restored journal does not know.
        var lostBySender: Set<CommandKey> = []
        /// Commands that their sender's restored journal has as open, whatever became of them since.
        var reopened: Set<CommandKey> = []
        /// Whether the stored state of any party has gone back.
        var hasGoneBack = false
        var outcomes: Set<CommandOutcome> = []
        var violations: [String] = []
    }

    mutating func handle(_ command: CommandDescriptor) {
        target.handlers.append(command)
        let isNew = history.handled.insert(command.key).inserted
        if now >= command.expires { history.violations.append("handled after its expiry") }
        // A target whose journal has gone back does not know these.
        if !history.lostByTarget.contains(command.key) {
            if !isNew { history.violations.append("handled twice") }
            if let last = history.lastHandled[command.lane], command.number <= last { history.violations.append("handled out of order") }
            if history.answered.contains(command.digest) { history.violations.append("handled after its result was sent") }
            if history.reportedNotRun.contains(command.key), !history.reopened.contains(command.key) {
                history.violations.append("handled after it was reported as not run")
            }
        }
        history.lastHandled[command.lane] = command.number
        if target.rows[command.key]?.state != .handling { history.violations.append("handled without a word in the journal") }
    }

    /// Checks the commit of a sender's row, which the app learns of now or after a crash.
    mutating func checkCommit(_ row: SentCommand) {
        let key = row.command.key
        switch row.state {
        // It is signed again after its target has said that its number had passed: the relay has not accepted the new bytes.
        case .prepared where history.hasGoneBack: history.accepted.remove(key)
        case .prepared, .queued, .sent: break
        case .accepted: history.accepted.insert(key)
        case .withdrawn: tellNotRun(key, "withdrawn")
        case .refused(let rejection):
            if history.accepted.contains(key) { history.violations.append("accepted, then refused") }
            // After the loss of its database, the relay does not know the target until it connects.
            let isTrue =
                rejection.reason == .expired || rejection.reason == .targetUnknown && world.hasLostDatabase
                || rejection.reason == .numberPassed && history.hasGoneBack
            if !isTrue { history.violations.append("refused: \(rejection.reason)") }
            tellNotRun(key, "refused")
        case .final(let final): check(final, of: row.command)
        }
    }

    private mutating func check(_ final: CommandFinal, of command: CommandDescriptor) {
        let key = command.key
        history.outcomes.insert(final.outcome)
        switch final.outcome {
        case .failed where final.highest != nil: tellNotRun(key, "failed", by: final.attestedBy)
        case .succeeded, .declined, .unsupported, .failed:
            let answers = history.answers[key, default: []]
            if !answers.contains(final.outcome) || final.attestedBy != .target {
                history.violations.append("told \(final.outcome), answered \(answers)")
            }
        case .expired:
            if now < command.expires { history.violations.append("expired too early") }
            tellNotRun(key, "expired", by: final.attestedBy)
        case .cancelled: tellNotRun(key, "cancelled", by: final.attestedBy)
        case .indeterminate(.forgotten) where history.hasGoneBack: break
        case .indeterminate(.interrupted), .indeterminate(.forgotten):
            if !history.begun.contains(key) { history.violations.append("\(final.outcome), never begun") }
            // A committed result reaches the sender, unless the relay has lost or removed its state.
            let isForgotten = history.lostResults.contains(key) || now >= command.created + CommandPeriod.retention
            if let result = history.results[key], result != final.outcome, !isForgotten, !history.hasGoneBack {
                history.violations.append("\(final.outcome), but the result was \(result)")
            }
        case .indeterminate(.timedOut):
            if !history.timedOut.contains(key) { history.violations.append("timed out, but did not") }
        case .indeterminate(.targetLost):
            if now < command.expires, !history.hasGoneBack { history.violations.append("target lost too early") }
        }
    }

    /// - Parameter party: Who states it; `nil` for the sender itself, or the relay's refusal.
    private mutating func tellNotRun(_ key: CommandKey, _ word: String, by party: CommandAttestation? = nil) {
        history.reportedNotRun.insert(key)
        // A target that may handle the command again does not know that it ran, and may state its expiry or cancellation instead.
        let targetKnows = party != .target || !history.lostByTarget.contains(key)
        if history.handled.contains(key), !history.reopened.contains(key), targetKnows {
            history.violations.append("told \(word), but it ran")
        }
    }
}
