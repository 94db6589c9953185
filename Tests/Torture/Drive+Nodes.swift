// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// What the relay has to recover from, and when it ended.
struct Recovery: Sendable {
    enum Cause: String, Sendable {
        case death, promotion
        /// A node that died in the seconds before cannot say what is lost.
        case promotionAfterDeath = "promotion after a death"
        /// A node that stood still goes on.
        case resumption
    }

    var cause: Cause
    var since: ContinuousClock.Instant

    init(from cause: Cause, since: ContinuousClock.Instant = .now) { (self.cause, self.since) = (cause, since) }
}

/// Nodes that stand still, and a database that fails.
extension Drive {
    func begin(_ mishap: Plan.Mishap) {
        switch mishap.kind {
        case .cut(let node, let answer):
            write("cut", "relayd \(node)")
            ledger.happened("cuts")
            relays.cut(node, answer: answer)
        case .frozen(let node, let time):
            strikesAtWork += 1
            Task { await self.freeze(node, for: time) }
        case .upgraded(let node):
            strikesAtWork += 1
            Task {
                do {
                    try await self.upgrade(node)
                } catch {
                    self.fail("node \(node) cannot be upgraded: \(error)")
                }
            }
        case .promoted:
            strikesAtWork += 1
            Task {
                do {
                    try await self.promote()
                } catch {
                    self.fail("the standby cannot be promoted: \(error)")
                }
            }
        }
    }

    private func upgrade(_ node: Int) async throws {
        defer { strikesAtWork -= 1 }
        while !up.contains(node) || standing.contains(node) { try await Task.sleep(for: .milliseconds(20)) }
        up.remove(node)
        write("upgrade", "relayd \(node)")
        ledger.happened("upgrades")
        if try await relays.nodes[node].stop() != 0 { ledger.recordAnomaly("the earlier relayd did not stop well") }
        relays.nodes[node].program = nil
        try await startAgain(node)
        up.insert(node)
    }

    private func freeze(_ node: Int, for time: Int) async {
        defer { strikesAtWork -= 1 }
        // Another one, if this one is down or stands still already.
        let candidates = (0..<plan.nodes).map { (node + $0) % plan.nodes }
        guard let node = candidates.first(where: { up.contains($0) && !standing.contains($0) }) else { return }
        standing.insert(node)
        write("freeze", "relayd \(node)")
        ledger.happened("frozen nodes")
        relays.nodes[node].freeze()
        try? await Task.sleep(for: .milliseconds(time))
        relays.nodes[node].resume()
        standing.remove(node)
        recoveries.append(Recovery(from: .resumption))
        write("resume", "relayd \(node)")
    }

    private func promote() async throws {
        defer { strikesAtWork -= 1 }
        while isPromoting { try await Task.sleep(for: .milliseconds(100)) }
        isPromoting = true
        defer { isPromoting = false }
        guard let database = relays.database else { return }
        write("promote", "")
        ledger.happened("promotions")
        let time = try await database.promote()
        recoveries.append(Recovery(from: .promotion, since: time))
        write("promoted", "")
        try await database.restoreStandby()
        write("followed", "")
    }

    /// Starts a node. It cannot start while there is no primary.
    func startAgain(_ node: Int) async throws {
        for _ in 0..<100 where relays.database != nil {
            do {
                _ = try await relays.nodes[node].start()
                return
            } catch {
                try await Task.sleep(for: .milliseconds(200))
            }
        }
        _ = try await relays.nodes[node].start()
    }

    /// After a promotion, nodes that cannot say whether something is lost make the database begin anew, as after a restoration.
    func watchBeginnings() async throws {
        guard let database = relays.database else { return }
        var began: String?
        while true {
            try await Task.sleep(for: .milliseconds(300))
            guard let now = try? await database.query("SELECT began FROM meta") else { continue }
            if let began, began != now {
                write("begin anew", now)
                ledger.happened("new beginnings")
                ledger.wentBack(.relayd(0), ordered: ordered)
            }
            began = now
        }
    }

    /// How long after a mishap a pause counts as one of it.
    private static let aftermath = Duration.seconds(20)

    /// Something goes on. What was under way may end at once, and only then nothing goes on for a while. While a node stands still, its
    /// endpoints cannot know that it does.
    func recovered() {
        let now = ContinuousClock.now
        recoveries.removeAll { now - $0.since > Self.aftermath }
        if var latest = recoveries.max(by: { $0.since < $1.since }), standing.isEmpty {
            let others = recoveries.contains { $0.cause != .promotion }
            if latest.cause == .promotion, others { latest.cause = .promotionAfterDeath }
            ledger.recovered(from: latest.cause.rawValue, after: now - max(latest.since, lastProgress))
        }
        lastProgress = now
    }
}
