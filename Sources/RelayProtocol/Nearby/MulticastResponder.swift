// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Advertises one instance on one interface (RFC 6762 §6, §8 to §10). It does no I/O and reads no clock: times are in milliseconds, and the
/// owner calls `tick` at `nextTime`.
///
/// ```text
/// probing (3 times) ──▶ announcing (2 times) ──▶ running ──▶ ended
///    ▲ a conflict takes new names      │            │
///    └─────────────────────────────────┴────────────┘
/// ```
package struct MulticastResponder {
    package enum Destination: Hashable, Sendable {
        case multicast
        /// The source of a query by a resolver that knows no multicast (RFC 6762 §6.7).
        case asker
    }

    package enum Action: Hashable, Sendable {
        case send(DNSMessage, to: Destination)
        /// The names were taken. The instance has new ones now.
        case renamed
    }

    private enum State: Hashable {
        case probing(sent: Int, next: Int64)
        case announcing(sent: Int, next: Int64)
        case running
        case ended
    }

    /// An answer that waits, because other hosts may answer at the same moment, or because it was sent just now.
    private struct Pending {
        var due: Int64
        /// Whether the other records of the instance are added.
        var wantsAdditionals: Bool
    }

    static let probes = 3
    static let probePause: Int64 = 250
    static let announcements = 2
    static let announcementPause: Int64 = 1_000
    /// How often one record may be sent.
    static let recordPause: Int64 = 1_000
    /// From so many conflicts within ten seconds on, each new name waits.
    static let maximumConflicts = 15
    static let conflictWindow: Int64 = 10_000
    static let conflictPause: Int64 = 5_000
    /// Longest life of a record in an answer to the asker alone, in seconds.
    static let askerLife: UInt32 = 10

    package private(set) var instance: ServiceInstance
    private var state: State
    private var pending: [DNSRecord: Pending] = [:]
    private var sent: [DNSRecord: Int64] = [:]
    /// The times of the latest ones.
    private var conflicts: [Int64] = []

    package init(_ instance: ServiceInstance, at now: Int64, using random: inout some RandomNumberGenerator) {
        self.instance = instance
        state = .probing(sent: 0, next: now + Int64.random(in: 0...Self.probePause, using: &random))
    }

    /// When `tick` has something to do.
    package var nextTime: Int64? {
        let answer = pending.values.map(\.due).min()
        return switch state {
        case .probing(_, let next), .announcing(_, let next): min(next, answer ?? next)
        case .running: answer
        case .ended: nil
        }
    }

    // MARK: Time

    package mutating func tick(at now: Int64) -> [Action] {
        var actions: [Action] = []
        switch state {
        case .probing(let count, let next) where next <= now:
            if count < Self.probes {
                actions.append(.send(probe, to: .multicast))
                state = .probing(sent: count + 1, next: now + Self.probePause)
            } else {
                actions += announce(0, at: now)
            }
        case .announcing(let count, let next) where next <= now: actions += announce(count, at: now)
        case .probing, .announcing, .running, .ended: break
        }
        return actions + sendPending(at: now)
    }

    private var probe: DNSMessage {
        var message = DNSMessage(isResponse: false)
        message.questions = [DNSQuestion(instance.name, .any), DNSQuestion(instance.host, .any)]
        message.authorities = instance.uniqueRecords.map { record in
            var record = record
            // Only an answer replaces what others cached.
            record.isUnique = false
            return record
        }
        return message
    }

    private mutating func announce(_ count: Int, at now: Int64) -> [Action] {
        state = count + 1 < Self.announcements ? .announcing(sent: count + 1, next: now + Self.announcementPause) : .running
        let records = [instance.pointer] + instance.uniqueRecords
        for record in records { sent[record] = now }
        var message = DNSMessage(isResponse: true)
        message.answers = records
        return [.send(message, to: .multicast)]
    }

    private mutating func sendPending(at now: Int64) -> [Action] {
        let due = pending.filter { $0.value.due <= now }
        guard !due.isEmpty else { return [] }
        var message = DNSMessage(isResponse: true)
        message.answers = order(due.keys)
        if due.values.contains(where: \.wantsAdditionals) {
            message.additionals = instance.uniqueRecords.filter { due[$0] == nil }
        }
        for record in due.keys { pending[record] = nil }
        for record in message.records { sent[record] = now }
        return [.send(message, to: .multicast)]
    }

    /// In the order of the instance, so that equal inputs have equal actions.
    private func order(_ records: some Sequence<DNSRecord>) -> [DNSRecord] {
        let wanted = Set(records)
        return ([instance.typePointer, instance.pointer] + instance.uniqueRecords).filter(wanted.contains)
    }

    // MARK: Messages

    /// - Parameters:
    ///   - isLegacy: Whether it comes from another port than that of multicast DNS.
    ///   - isOwn: Whether it comes from this machine. What it claims may be what this responder has sent before a change.
    package mutating func received(
        _ message: DNSMessage,
        isLegacy: Bool,
        isOwn: Bool = false,
        at now: Int64,
        using random: inout some RandomNumberGenerator
    ) -> [Action] {
        guard state != .ended else { return [] }
        let claims = message.isResponse ? message.records : message.authorities
        if !isOwn, claims.contains(where: isConflict) { return conflict(at: now, using: &random) }
        switch state {
        case .probing, .ended: return []
        case .announcing, .running: break
        }
        return message.isResponse ? [] : answer(message, isLegacy: isLegacy, at: now, using: &random)
    }

    /// Whether another host claims a name of the instance with other content.
    private func isConflict(_ record: DNSRecord) -> Bool {
        guard record.name == instance.name || record.name == instance.host, record.timeToLive > 0 else { return false }
        let own = instance.uniqueRecords.filter { $0.name == record.name && $0.kind == record.kind }
        return !own.isEmpty && !own.contains { $0.content == record.content }
    }

    private mutating func conflict(at now: Int64, using random: inout some RandomNumberGenerator) -> [Action] {
        conflicts = (conflicts.filter { now - $0 < Self.conflictWindow } + [now]).suffix(Self.maximumConflicts)
        instance.labels = ServiceInstance.Labels(using: &random)
        restart(at: now + (conflicts.count == Self.maximumConflicts ? Self.conflictPause : 0), using: &random)
        return [.renamed]
    }

    private mutating func restart(at time: Int64, using random: inout some RandomNumberGenerator) {
        (pending, sent) = ([:], [:])
        state = .probing(sent: 0, next: time + Int64.random(in: 0...Self.probePause, using: &random))
    }

    private mutating func answer(
        _ query: DNSMessage,
        isLegacy: Bool,
        at now: Int64,
        using random: inout some RandomNumberGenerator
    ) -> [Action] {
        let records = order(query.questions.flatMap(answers))
        guard !records.isEmpty else { return [] }
        guard !isLegacy else {
            var message = DNSMessage(isResponse: true)
            message.id = query.id
            message.questions = query.questions
            func short(_ record: DNSRecord) -> DNSRecord {
                DNSRecord(record.name, record.content, timeToLive: min(record.timeToLive, Self.askerLife), isUnique: false)
            }
            message.answers = records.map(short)
            message.additionals = instance.uniqueRecords.filter { !records.contains($0) }.map(short)
            return [.send(message, to: .asker)]
        }
        // Others may answer at the same moment to a question about a shared name; and after a query that is continued, its known answers
        // may still come.
        let delay: ClosedRange<Int64> = query.isTruncated ? 400...500 : records.allSatisfy(\.isUnique) ? 0...0 : 20...120
        let due = now + Int64.random(in: delay, using: &random)
        for record in records where !isKnown(record, by: query) {
            let earliest = sent[record].map { max(due, $0 + Self.recordPause) } ?? due
            let old = pending[record]
            pending[record] = Pending(
                due: min(old?.due ?? earliest, earliest),
                wantsAdditionals: record == instance.pointer || record.kind == .srv || old?.wantsAdditionals ?? false
            )
        }
        return sendPending(at: now)
    }

    private func answers(to question: DNSQuestion) -> [DNSRecord] {
        ([instance.typePointer, instance.pointer] + instance.uniqueRecords).filter {
            $0.name == question.name && (question.type == .any || question.type == $0.kind)
        }
    }

    /// Whether the asker has the record for more than half of its life (RFC 6762 §7.1).
    private func isKnown(_ record: DNSRecord, by query: DNSMessage) -> Bool {
        query.answers.contains {
            $0.name == record.name && $0.content == record.content && $0.timeToLive >= record.timeToLive / 2
        }
    }

    // MARK: Changes

    /// Announces changed records. Old ones that are gone say goodbye; of others, an announcement replaces the old content.
    package mutating func update(_ new: ServiceInstance, at now: Int64, using random: inout some RandomNumberGenerator) -> [Action] {
        guard new != instance, state != .ended else { return [] }
        guard new.labels == instance.labels else {
            let actions = goodbye
            instance = new
            restart(at: now, using: &random)
            return actions
        }
        instance = new
        (pending, sent) = ([:], [:])
        if case .probing = state { return [] }
        return announce(0, at: now)
    }

    /// Says goodbye, and answers nothing more.
    package mutating func end() -> [Action] {
        defer {
            state = .ended
            pending = [:]
        }
        return goodbye
    }

    /// Nothing, unless the instance was announced.
    private var goodbye: [Action] {
        switch state {
        case .probing, .ended: return []
        case .announcing, .running: break
        }
        var message = DNSMessage(isResponse: true)
        message.answers = ([instance.pointer] + instance.uniqueRecords).map { record in
            var record = record
            record.timeToLive = 0
            return record
        }
        return [.send(message, to: .multicast)]
    }
}
