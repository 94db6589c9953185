// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Finds the instances of the service on one interface (RFC 6762 §5.2, §7.1, §10, RFC 6763 §4). It does no I/O and reads no clock: times are
/// in milliseconds, and the owner calls `tick` at `nextTime`. It learns from every message; only while it is wanted, it asks.
package struct MulticastBrowser {
    /// An instance of which everything is known.
    package struct Instance: Hashable, Sendable {
        package let name: DNSName
        package let port: UInt16
        package let text: [[UInt8]]
        /// In the order of their bytes.
        package let addresses: [IPAddress]
        /// Whether it has said goodbye. It stays for a second, because somebody else may have said so.
        package let isEnding: Bool

        package init(name: DNSName, port: UInt16, text: [[UInt8]], addresses: [IPAddress], isEnding: Bool = false) {
            (self.name, self.port, self.text, self.addresses, self.isEnding) = (name, port, text, addresses, isEnding)
        }
    }

    private struct Record {
        let record: DNSRecord
        let received: Int64
        var ends: Int64
        /// How often it was asked for again before its end.
        var refreshes = 0

        var life: Int64 { Int64(record.timeToLive) * 1_000 }

        /// When to ask for it again: at 80, 85, 90 and 95 % of its life (RFC 6762 §5.2).
        var nextRefresh: Int64? {
            refreshes < 4 && record.timeToLive >= MulticastBrowser.shortestRefreshed
                ? received + life * Int64(80 + 5 * refreshes) / 100 : nil
        }

        /// - Returns: Whether to ask for it now.
        mutating func refresh(_ now: Int64) -> Bool {
            guard let time = nextRefresh, time <= now else { return false }
            while let time = nextRefresh, time <= now { refreshes += 1 }
            return true
        }

        /// Whether an asker may list it as known (RFC 6762 §7.1).
        func isKnown(at now: Int64) -> Bool { ends - now > life / 2 }
    }

    /// What is known of an instance. Each content has one record.
    private struct Entry {
        var pointer: Record
        var service: Record?
        var text: Record?
        /// When the missing records were last asked for, and how often.
        var asked: Int64?
        var questions = 0

        var isEnding: Bool { pointer.record.timeToLive == 0 }
        var host: DNSName? { if case .service(_, let host)? = service?.record.content { host } else { nil } }
    }

    package static let maximumInstances = 256
    /// New instances that are taken at once, and then in each second: of one sender, and of all.
    package static let newPerSecond = 20
    package static let newOfAllPerSecond = 200
    package static let maximumAddresses = 8
    /// Hosts whose addresses are kept.
    private static let maximumHosts = 512
    private static let firstPause: Int64 = 1_000
    private static let lastPause: Int64 = 3_600_000
    /// The lifetime of a record that others may be about to correct (RFC 6762 §10.1, §10.2).
    private static let goodbyeLife: Int64 = 1_000
    /// A record's life is at most a day, so that no answer is believed for ever.
    private static let maximumLife: UInt32 = 86_400
    /// A record with a shorter life is not asked for before its end, in seconds.
    fileprivate static let shortestRefreshed: UInt32 = 10
    /// The sizes of the names in the questions, and in the known answers, of one message. The rest of the questions follows.
    private static let maximumQuestionBytes = 1_200
    private static let maximumKnownBytes = 4_000
    /// Between two messages, in milliseconds.
    private static let pauseBetweenQuestions: Int64 = 100
    /// How often the missing records of an instance are asked for, after 1, 2 and 4 s.
    private static let maximumQuestions = 3

    private var entries: [DNSName: Entry] = [:]
    private var hosts: [DNSName: [Record]] = [:]
    /// By sender; `nil` for all together.
    private var limiter = KeyedLimiter<IPAddress?>()
    /// The instances that keep their place when there are too many.
    package var kept: Set<DNSName> = []
    /// The next question for the type, and the pause after it; `nil` while nobody wants instances.
    private var question: (next: Int64, pause: Int64)?
    /// Before this time nothing is asked.
    private var earliestQuestion = Int64.min
    /// Before this time no record ends.
    private var earliestEnd = Int64.max

    package init() {}

    /// The instances of which everything is known, sorted by name.
    package private(set) var instances: [Instance] = []
    /// Whether a content has come or gone since `instances` was made.
    private var isChanged = false

    private mutating func update() {
        guard isChanged else { return }
        isChanged = false
        instances = entries.compactMap { name, entry in
            guard case .service(let port, let host)? = entry.service?.record.content, case .text(let text)? = entry.text?.record.content,
                let addresses = hosts[host]?.compactMap({ if case .address(let address) = $0.record.content { address } else { nil } }),
                !addresses.isEmpty
            else { return nil }
            let sorted = addresses.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
            return Instance(name: name, port: port, text: text, addresses: sorted, isEnding: entry.isEnding)
        }.sorted { $0.name < $1.name }
    }

    // MARK: Questions

    package var isWanted: Bool { question != nil }

    /// Begins to ask, or stops.
    package mutating func want(_ isWanted: Bool, at now: Int64, using random: inout some RandomNumberGenerator) {
        guard isWanted != self.isWanted else { return }
        // Several devices may start at the same moment (RFC 6762 §5.2).
        question = isWanted ? (now + Int64.random(in: 20...120, using: &random), Self.firstPause) : nil
    }

    /// Asks for the type, and for what is missing, as if nobody had asked before: who was silent may have slept.
    package mutating func askAgain(at now: Int64, using random: inout some RandomNumberGenerator) {
        guard question != nil else { return }
        question = (now + Int64.random(in: 20...120, using: &random), Self.firstPause)
        for (name, var entry) in entries where isIncomplete(entry) {
            (entry.questions, entry.asked) = (0, nil)
            entries[name] = entry
        }
    }

    /// When `tick` has something to do.
    package var nextTime: Int64? {
        guard let question else { return earliestEnd == .max ? nil : earliestEnd }
        return min(max(nextQuestion(question.next), earliestQuestion), earliestEnd)
    }

    private func nextQuestion(_ next: Int64) -> Int64 {
        let records = hosts.values.flatMap { $0.compactMap(\.nextRefresh) }
        let entries = entries.values.flatMap { entry in
            [entry.pointer.nextRefresh, entry.service?.nextRefresh, entry.text?.nextRefresh, missingTime(entry)].compactMap(\.self)
        }
        return (records + entries).reduce(next, min)
    }

    /// When to ask for what is missing of an instance; `nil` if nothing is, or it was asked for often enough.
    private func missingTime(_ entry: Entry) -> Int64? {
        guard isIncomplete(entry), entry.questions < Self.maximumQuestions else { return nil }
        return entry.asked.map { $0 + Self.firstPause << Int64(entry.questions - 1) } ?? entry.pointer.received
    }

    private func isIncomplete(_ entry: Entry) -> Bool {
        guard let host = entry.host, entry.text != nil else { return true }
        return hosts[host]?.isEmpty ?? true
    }

    /// - Returns: The messages to send.
    package mutating func tick(at now: Int64) -> [DNSMessage] {
        if now >= earliestEnd { expire(now) }
        guard var question, now >= earliestQuestion else { return [] }
        var questions: [DNSQuestion] = []
        func hasRoom() -> Bool { questions.reduce(0) { $0 + $1.name.encodedCount + 4 } < Self.maximumQuestionBytes }
        if question.next <= now {
            questions.append(DNSQuestion(DeviceRelayService.type, .ptr))
            question = (now + question.pause, min(question.pause * 2, Self.lastPause))
            self.question = question
        }
        for (name, entry) in entries where hasRoom() {
            var entry = entry
            if entry.pointer.refresh(now) { questions.append(DNSQuestion(DeviceRelayService.type, .ptr)) }
            if entry.service?.refresh(now) ?? false { questions.append(DNSQuestion(name, .srv)) }
            if entry.text?.refresh(now) ?? false { questions.append(DNSQuestion(name, .txt)) }
            if let time = missingTime(entry), time <= now {
                questions += missing(name, entry)
                entry.asked = now
                entry.questions += 1
            }
            entries[name] = entry
        }
        for (name, records) in hosts where hasRoom() {
            for index in records.indices where hosts[name]?[index].refresh(now) ?? false {
                questions.append(DNSQuestion(name, records[index].record.kind))
            }
        }
        guard !questions.isEmpty else { return [] }
        earliestQuestion = now + Self.pauseBetweenQuestions
        var message = DNSMessage(isResponse: false)
        var seen: Set<DNSQuestion> = []
        message.questions = questions.filter { seen.insert($0).inserted }
            .sorted { ($0.name, $0.type.rawValue) < ($1.name, $1.type.rawValue) }
        if seen.contains(where: { $0.type == .ptr }) {
            // An instance of which something is missing has to answer.
            var bytes = 0
            message.answers = entries.filter { $0.value.pointer.isKnown(at: now) && !isIncomplete($0.value) }.sorted { $0.key < $1.key }
                .prefix { entry in
                    bytes += entry.key.encodedCount + 12
                    return bytes <= Self.maximumKnownBytes
                }
                .map { known($0.value.pointer, now) }
        }
        return [message]
    }

    private func missing(_ name: DNSName, _ entry: Entry) -> [DNSQuestion] {
        var questions: [DNSQuestion] = []
        if entry.text == nil { questions.append(DNSQuestion(name, .txt)) }
        if let host = entry.host {
            if hosts[host]?.isEmpty ?? true { questions += [DNSQuestion(host, .a), DNSQuestion(host, .aaaa)] }
        } else {
            questions.append(DNSQuestion(name, .srv))
        }
        return questions
    }

    private func known(_ record: Record, _ now: Int64) -> DNSRecord {
        var known = record.record
        known.timeToLive = UInt32(clamping: (record.ends - now) / 1_000)
        known.isUnique = false
        return known
    }

    // MARK: Answers

    /// Learns from a message of this interface.
    package mutating func received(_ message: DNSMessage, from sender: IPAddress, at now: Int64) {
        guard message.isResponse else { return }
        let records = message.records
        var changes = Changes(sender: sender, now: now)
        // Pointers first: nothing else is taken of what nobody points to.
        for record in records {
            guard case .pointer(let name) = record.content, record.name == DeviceRelayService.type, name.parent == DeviceRelayService.type
            else { continue }
            take(record, pointingTo: name, &changes)
        }
        for record in records {
            switch record.content {
            case .service: change(record, \.service, &changes)
            case .text: change(record, \.text, &changes)
            case .pointer, .address, .other: break
            }
        }
        let named = Set(entries.values.compactMap(\.host))
        hosts = hosts.filter { named.contains($0.key) }
        for record in records where named.contains(record.name) {
            if case .address = record.content { take(address: record, &changes) }
        }
        update()
    }

    /// What a message has changed.
    private struct Changes {
        let sender: IPAddress
        let now: Int64
        /// The instances that are new, and counted.
        var new: Set<DNSName> = []
        /// Whether the message may change ports and addresses; `nil` until it tries.
        var mayChangePlaces: Bool?
    }

    private mutating func record(_ record: DNSRecord, _ now: Int64) -> Record {
        let record = Self.record(record, now)
        earliestEnd = min(earliestEnd, record.ends)
        return record
    }

    private static func record(_ record: DNSRecord, _ now: Int64) -> Record {
        var record = record
        record.timeToLive = min(record.timeToLive, maximumLife)
        // A record that says goodbye stays for a second, because another host may still have it.
        let life = record.timeToLive == 0 ? goodbyeLife : Int64(record.timeToLive) * 1_000
        return Record(record: record, received: now, ends: now + life)
    }

    private mutating func take(_ record: DNSRecord, pointingTo name: DNSName, _ changes: inout Changes) {
        if entries[name] != nil {
            let known = self.record(record, changes.now)
            let wasEnding = entries[name]?.isEnding
            entries[name]?.pointer = known
            if entries[name]?.isEnding != wasEnding { isChanged = true }
            return
        }
        guard record.timeToLive > 0, mayChange(changes), makeRoom() else { return }
        changes.new.insert(name)
        entries[name] = Entry(pointer: self.record(record, changes.now))
    }

    /// Whether a sender may bring something new now. Each new instance or text costs the owner the search for its peer.
    private mutating func mayChange(_ changes: Changes) -> Bool {
        let time = Milliseconds(clamping: changes.now)
        return limiter.take(changes.sender, EventRate(Self.newPerSecond, per: 1_000), now: time) == nil
            && limiter.take(nil, EventRate(Self.newOfAllPerSecond, per: 1_000), now: time) == nil
    }

    /// The same for ports and addresses, once for all of a message.
    private mutating func mayChangePlaces(_ changes: inout Changes) -> Bool {
        if let known = changes.mayChangePlaces { return known }
        let may = !changes.new.isEmpty || mayChange(changes)
        changes.mayChangePlaces = may
        return may
    }

    /// - Returns: Whether there is room for another instance, in place of the oldest one that need not be kept.
    private mutating func makeRoom() -> Bool {
        guard entries.count >= Self.maximumInstances else { return true }
        let oldest = entries.filter { !kept.contains($0.key) }.min { $0.value.pointer.received < $1.value.pointer.received }
        guard let oldest else { return false }
        entries[oldest.key] = nil
        isChanged = true
        return true
    }

    private mutating func change(_ record: DNSRecord, _ place: WritableKeyPath<Entry, Record?>, _ changes: inout Changes) {
        guard let entry = entries[record.name] else { return }
        let old = entry[keyPath: place]?.record.content
        if old != record.content {
            // A goodbye says only that this content ends.
            guard record.timeToLive > 0 else { return }
            switch record.content {
            case .text: guard changes.new.contains(record.name) || mayChange(changes) else { return }
            default: guard mayChangePlaces(&changes) else { return }
            }
            isChanged = true
        }
        let known = self.record(record, changes.now)
        entries[record.name]?[keyPath: place] = known
        entries[record.name]?.questions = 0
    }

    private mutating func take(address record: DNSRecord, _ changes: inout Changes) {
        let now = changes.now
        var all = hosts[record.name] ?? []
        if record.isUnique {
            // Older ones are wrong, but others of the same message are not (RFC 6762 §10.2).
            for index in all.indices where all[index].record.kind == record.kind && all[index].received < now - Self.goodbyeLife {
                all[index].ends = min(all[index].ends, now + Self.goodbyeLife)
                earliestEnd = min(earliestEnd, all[index].ends)
            }
        }
        if let index = all.firstIndex(where: { $0.record.content == record.content }) {
            all[index] = self.record(record, now)
        } else if record.timeToLive > 0, all.count < Self.maximumAddresses, hosts[record.name] != nil || hosts.count < Self.maximumHosts,
            mayChangePlaces(&changes)
        {
            all.append(self.record(record, now))
            isChanged = true
        }
        hosts[record.name] = all
    }

    private mutating func expire(_ now: Int64) {
        let old = entries.count
        entries = entries.filter { $0.value.pointer.ends > now }
        if entries.count != old { isChanged = true }
        for name in entries.keys {
            for place in [\Entry.service, \.text] {
                guard let ends = entries[name]?[keyPath: place]?.ends, ends <= now else { continue }
                entries[name]?[keyPath: place] = nil
                isChanged = true
            }
        }
        let named = Set(entries.values.compactMap(\.host))
        hosts = hosts.filter { named.contains($0.key) }
        for (name, records) in hosts where records.contains(where: { $0.ends <= now }) {
            let left = records.filter { $0.ends > now }
            hosts[name] = left.isEmpty ? nil : left
            isChanged = true
        }
        let ends = entries.values.flatMap { [$0.pointer.ends, $0.service?.ends, $0.text?.ends].compactMap(\.self) }
        earliestEnd = (ends + hosts.values.flatMap { $0.map(\.ends) }).min() ?? .max
        update()
    }
}
