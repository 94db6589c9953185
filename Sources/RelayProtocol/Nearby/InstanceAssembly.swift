// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Puts the instances of the service on one interface together from what the system's DNS-SD service finds. That service keeps the times to
/// live and says when something ends. This type says what to ask it. It does no I/O; times are in milliseconds.
///
/// The answers that the system has reported once are not reported again. So nothing is forgotten before `settle`, after which the owner asks
/// what is returned, and nothing else.
package struct InstanceAssembly {
    private struct Entry {
        /// In the order in which they were found.
        let number: UInt64
        var isLost = false
        var service: Place?
        var text: [[UInt8]]?
    }

    private struct Place: Equatable {
        let port: UInt16
        let host: DNSName
    }

    private var entries: [DNSName: Entry] = [:]
    private var hosts: [DNSName: [IPAddress]] = [:]
    private var count: UInt64 = 0
    /// By instance; `nil` for all together. The system does not tell who sends.
    private var limiter = KeyedLimiter<DNSName?>()
    /// The instances that keep their place when there are too many.
    package var kept: Set<DNSName> = []
    /// The instances of which everything is known, sorted by name.
    package private(set) var instances: [MulticastBrowser.Instance] = []

    package init() {}

    /// An instance is there. Above the rate it is not taken: the next search reports it again.
    package mutating func found(_ name: DNSName, at now: Int64) {
        if entries[name] != nil {
            entries[name]?.isLost = false
            return
        }
        guard name.parent == DeviceRelayService.type,
            limiter.take(nil, EventRate(MulticastBrowser.newOfAllPerSecond, per: 1_000), now: Milliseconds(clamping: now)) == nil
        else { return }
        count += 1
        entries[name] = Entry(number: count)
    }

    package mutating func lost(_ name: DNSName) { entries[name]?.isLost = true }

    /// A question that `settle` has returned has an answer, or has it no more.
    /// - Parameter data: The content of the record. One that is not valid is ignored.
    package mutating func answered(_ question: DNSQuestion, _ data: [UInt8], isThere: Bool, at now: Int64) {
        guard let content = try? DNSRecord.Content(decoding: data, of: question.type) else { return }
        let name = question.name
        switch content {
        case .service(let port, let host): change(\.service, of: name, to: Place(port: port, host: host), isThere, now)
        case .text(let text): change(\.text, of: name, to: text, isThere, now)
        case .address(let address):
            guard var addresses = hosts[name] else { return }
            addresses.removeAll { $0 == address }
            if isThere, addresses.count < MulticastBrowser.maximumAddresses { addresses.append(address) }
            hosts[name] = addresses
        case .pointer, .other: break
        }
    }

    /// Each content has one record. Its successor may be reported before its own end.
    private mutating func change<Content: Equatable>(
        _ place: WritableKeyPath<Entry, Content?>,
        of name: DNSName,
        to content: Content,
        _ isThere: Bool,
        _ now: Int64
    ) {
        guard let entry = entries[name] else { return }
        guard entry[keyPath: place] != content else {
            if !isThere { entries[name]?[keyPath: place] = nil }
            return
        }
        guard isThere else { return }
        // Each new text costs the owner the search for its peer. An instance that changes too fast is not shown.
        let rate = EventRate(MulticastBrowser.newPerSecond, per: 1_000)
        let isTaken = limiter.take(name, rate, now: Milliseconds(clamping: now)) == nil
        entries[name]?[keyPath: place] = isTaken ? content : nil
    }

    /// Forgets what is lost, and what is too much, and updates `instances`.
    /// - Returns: What to ask from now on.
    package mutating func settle() -> Set<DNSQuestion> {
        entries = entries.filter { !$0.value.isLost }
        if entries.count > MulticastBrowser.maximumInstances {
            let ranks = entries.map { name, entry in (isKept: kept.contains(name) ? 1 : 0, number: entry.number, name: name) }
            let order = ranks.sorted { ($0.isKept, $0.number) < ($1.isKept, $1.number) }
            for rank in order.dropLast(MulticastBrowser.maximumInstances) { entries[rank.name] = nil }
        }
        let named = Set(entries.values.compactMap { $0.service?.host })
        hosts = Dictionary(uniqueKeysWithValues: named.map { ($0, hosts[$0] ?? []) })
        instances = entries.compactMap { name, entry in
            guard let place = entry.service, let text = entry.text, let addresses = hosts[place.host], !addresses.isEmpty else {
                return nil
            }
            let sorted = addresses.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
            return MulticastBrowser.Instance(name: name, port: place.port, text: text, addresses: sorted)
        }.sorted { $0.name < $1.name }
        let ofInstances = entries.keys.flatMap { [DNSQuestion($0, .srv), DNSQuestion($0, .txt)] }
        return Set(ofInstances + named.flatMap { [DNSQuestion($0, .a), DNSQuestion($0, .aaaa)] })
    }
}
