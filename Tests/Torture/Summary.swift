// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The results of a run.
struct Summary: Encodable, CustomStringConvertible {
    var seed: UInt64
    var isKept: Bool
    var seconds: Double
    /// The number of planned launches.
    var launches: Int
    var messages: Int
    /// The number of commands that the relay accepted.
    var accepted: Int
    var handled: Int
    var endings: [String: Int]
    var kills: [String: Int]
    /// How often targets fell asleep, and how many pushes came.
    var naps: Int
    var pushes: Int
    /// How often stored state went back to an earlier copy.
    var restores: [String: Int]
    /// What happened to the nodes and their database.
    var mishaps: [String: Int]
    /// The longest time until something went on after the death of a node, or after a promotion, in milliseconds.
    var recoveries: [String: Int64]
    /// How many of the latest commands their targets may have got without the relay.
    var direct: Int
    /// Commands that their sender does not know any more.
    var lost: Int
    /// The largest delay of a handler's start after its command's expiry, in milliseconds; negative if none was late.
    var latestStart: Int64
    var violations: [String]

    init(_ plan: Plan, _ ledger: Ledger, seconds: Double, failure: String?) {
        seed = plan.seed
        self.seconds = seconds
        launches = plan.issues.count { !$0.isMessage }
        messages = plan.issues.count { $0.isMessage }
        accepted = ledger.entries.count { $0.isAccepted || $0.learned.contains { $0.ending != .withdrawn && $0.ending != .refused } }
        handled = ledger.entries.count { !$0.starts.isEmpty }
        endings = Dictionary(uniqueKeysWithValues: ledger.endings.map { ($0.key.rawValue, $0.value) })
        func byKind(_ counts: [Party: Int]) -> [String: Int] {
            counts.reduce(into: ["relayd": 0, "senders": 0, "targets": 0]) { result, entry in
                switch entry.key {
                case .relayd: result["relayd", default: 0] += entry.value
                case .sender: result["senders", default: 0] += entry.value
                case .target: result["targets", default: 0] += entry.value
                }
            }
        }
        kills = byKind(ledger.kills)
        restores = byKind(ledger.restores)
        (mishaps, recoveries) = (ledger.mishaps, ledger.recoveries)
        direct = ledger.direct
        lost = ledger.entries.count { $0.isLost }
        naps = ledger.naps.values.reduce(0, +)
        pushes = ledger.pushes
        latestStart = ledger.latest
        violations = (failure.map { [$0] } ?? []) + ledger.violations
        isKept = violations.isEmpty
    }

    var description: String {
        func list(_ counts: [String: Int]) -> String {
            counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
        }
        let seconds = (seconds * 10).rounded() / 10
        return "\(isKept ? "kept" : "BROKEN"): \(launches) launches and \(messages) messages, \(accepted) accepted, \(handled) handled"
            + " (\(list(endings))); \(kills.values.reduce(0, +)) kills (\(list(kills))); \(naps) naps, \(pushes) pushes"
            + (restores.values.allSatisfy { $0 == 0 } ? "" : "; \(restores.values.reduce(0, +)) restores (\(list(restores))), \(lost) lost")
            + (mishaps.isEmpty
                ? ""
                : "; \(list(mishaps)); longest pauses \(recoveries.map { "\($0.value) ms after a \($0.key)" }.sorted().joined(separator: ", "))")
            + (direct == 0 ? "" : "; \(direct) of the latest on the local network, too")
            + "; \(seconds) s; seed \(seed)"
    }
}
