// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Which instances on the local network may be which known endpoints, and where these may be dialled. A tag is only a hint: whoever copies an
/// advertisement has it too. It does no I/O; times are in milliseconds.
package struct NearbyPeers {
    /// An address at which an endpoint may listen.
    package struct Candidate: Hashable, Sendable {
        package let instance: DNSName
        package let address: IPAddress
        package let port: UInt16
        /// The number of the interface on which the instance was seen.
        package let interface: Int

        package init(instance: DNSName, address: IPAddress, port: UInt16, interface: Int) {
            (self.instance, self.address, self.port, self.interface) = (instance, address, port, interface)
        }
    }

    /// The addresses of one endpoint that are dialled at once.
    package static let maximumCandidates = 8
    /// Of one address: a neighbour with many copies of an advertisement gets no more.
    static let candidatesOfAnAddress = 2
    /// The instances of one endpoint that keep their place in the browser.
    static let instancesOfAPeer = 4
    /// How long an address is left alone for an endpoint that did not prove itself there.
    package static let falsePause: Int64 = 600_000
    private static let maximumFailures = 1_024

    private struct Sighting {
        let instance: MulticastBrowser.Instance
        let interface: Int
        let advertisement: Advertisement
        let peer: EndpointID?
        let since: Int64
    }

    /// Where an endpoint was dialled. Names are not part of it: a copy has any.
    private struct Door: Hashable {
        let peer: EndpointID
        let address: IPAddress
        let port: UInt16
    }

    private struct Place: Hashable {
        let instance: DNSName
        let interface: Int
    }

    private var keys: [EndpointID: PairKeys] = [:]
    private var sightings: [Place: Sighting] = [:]
    private var failures: [Door: Int64] = [:]
    private var proved: Set<Door> = []
    /// Where endpoints may be that are not seen.
    package var hints = AddressHints()

    package init() {}

    /// Replaces the endpoints that are recognised.
    package mutating func recognise(_ keys: [EndpointID: PairKeys]) {
        self.keys = keys
        hints.keep { keys[$0] != nil }
        sightings = sightings.mapValues { old in
            if let peer = old.peer, keys[peer] != nil { return old }
            return Sighting(
                instance: old.instance,
                interface: old.interface,
                advertisement: old.advertisement,
                peer: peer(of: old.advertisement),
                since: old.since
            )
        }
    }

    private func peer(of advertisement: Advertisement) -> EndpointID? {
        keys.first { advertisement.isFrom($0.key, $0.value) }?.key
    }

    /// Replaces what is seen on an interface.
    package mutating func see(_ instances: [MulticastBrowser.Instance], on interface: Int, at now: Int64) {
        var kept: [Place: Sighting] = sightings.filter { $0.key.interface != interface }
        for instance in instances {
            let place = Place(instance: instance.name, interface: interface)
            if let old = sightings[place], old.instance == instance {
                kept[place] = old
                continue
            }
            guard let advertisement = Advertisement(strings: instance.text) else { continue }
            let old = sightings[place]
            kept[place] = Sighting(
                instance: instance,
                interface: interface,
                advertisement: advertisement,
                peer: old?.advertisement == advertisement ? old?.peer : peer(of: advertisement),
                since: old?.since ?? now
            )
        }
        sightings = kept
    }

    /// The instances that may be known endpoints, which keep their place in the browser of an interface: a few of each.
    package func recognised(on interface: Int) -> Set<DNSName> {
        let seen = sightings.values.filter { $0.interface == interface && $0.peer != nil }
        return Set(Dictionary(grouping: seen) { $0.peer }.values.flatMap { ordered($0).prefix(Self.instancesOfAPeer).map(\.instance.name) })
    }

    /// Those at addresses where the endpoint has proved itself first, then those that were seen first.
    private func ordered(_ sightings: [Sighting]) -> [Sighting] {
        func rank(_ sighting: Sighting) -> Int {
            guard let peer = sighting.peer else { return 1 }
            let isProved = sighting.instance.addresses.contains {
                proved.contains(Door(peer: peer, address: $0, port: sighting.instance.port))
            }
            return isProved ? 0 : 1
        }
        return sightings.map { (rank($0), $0) }
            .sorted { ($0.0, $0.1.since, $0.1.interface) < ($1.0, $1.1.since, $1.1.interface) }.map(\.1)
    }

    /// The number of instances, at the interface with most of them.
    /// - Parameter own: The own endpoint, whose processes may advertise it on this machine; those do not count.
    package func count(besides own: EndpointID) -> Int {
        let others = sightings.filter { sighting in !keys.values.contains { sighting.value.advertisement.isFrom(own, $0) } }
        return Dictionary(grouping: others.keys) { $0.interface }.values.map(\.count).max() ?? 0
    }

    /// The endpoints that may be here.
    /// - Parameter hour: Since 1970.
    package func present(hour: UInt32) -> Set<EndpointID> {
        Set(sightings.values.compactMap { $0.advertisement.isRecent(at: hour) ? $0.peer : nil })
    }

    /// The endpoints that may be here, but are not recognised, because their clocks are wrong or the own one is.
    /// - Parameter hour: Since 1970.
    /// - Returns: How many hours the clock of each is ahead.
    package func inOtherHour(than hour: UInt32) -> [EndpointID: Int] {
        let present = present(hour: hour)
        return sightings.values.reduce(into: [:]) { all, sighting in
            guard let peer = sighting.peer, !present.contains(peer) else { return }
            let ahead = Int(sighting.advertisement.hour) - Int(hour)
            // An endpoint may leave old advertisements behind.
            if abs(ahead) < abs(all[peer] ?? .max) { all[peer] = ahead }
        }
    }

    /// What people in the same room may see, by instance.
    package func visible(hour: UInt32) -> [DNSName: Advertisement.Visible] {
        sightings.values.reduce(into: [:]) { all, sighting in
            if sighting.advertisement.isRecent(at: hour), let visible = sighting.advertisement.visible {
                all[sighting.instance.name] = visible
            }
        }
    }

    /// Where the endpoints that may be here were seen, in the order of addresses.
    /// - Parameter hour: Since 1970.
    package func places(hour: UInt32) -> [EndpointID: [Candidate]] {
        var places: [EndpointID: [Candidate]] = [:]
        for sighting in sightings.values where sighting.advertisement.isRecent(at: hour) {
            guard let peer = sighting.peer else { continue }
            let (instance, interface) = (sighting.instance, sighting.interface)
            places[peer, default: []] += instance.addresses.map {
                Candidate(instance: instance.name, address: $0, port: instance.port, interface: interface)
            }
        }
        return places.mapValues { candidates in
            candidates.sorted { ($0.interface, "\($0.address)", $0.port) < ($1.interface, "\($1.address)", $1.port) }
        }
    }

    /// Where an endpoint may be dialled: where it has proved itself first, then where it was seen first, then where hints lead; the families
    /// of addresses alternate (RFC 8305 §4).
    /// - Parameters:
    ///   - links: The interfaces of this machine that are used.
    ///   - own: All addresses of this machine. No hint leads to them.
    package func candidates(
        for peer: EndpointID,
        hour: UInt32,
        at now: Int64,
        on links: [LinkInterface] = [],
        own: () -> Set<IPAddress> = { [] },
        admits: (IPAddress) -> Bool
    ) -> [Candidate] {
        let seen = ordered(sightings.values.filter { $0.peer == peer && $0.advertisement.isRecent(at: hour) })
        var all: [Candidate] = []
        var ofAddress: [IPAddress: Int] = [:]
        for sighting in seen {
            for address in sighting.instance.addresses where admits(address) {
                let door = Door(peer: peer, address: address, port: sighting.instance.port)
                // The same address on another interface leads to the same place, unless it is link-local.
                let isKnown = all.contains {
                    $0.address == address && $0.port == door.port && (!address.isLinkLocal || $0.interface == sighting.interface)
                }
                guard !isKnown, (failures[door] ?? .min) <= now, ofAddress[address, default: 0] < Self.candidatesOfAnAddress else {
                    continue
                }
                ofAddress[address, default: 0] += 1
                all.append(.init(instance: sighting.instance.name, address: address, port: door.port, interface: sighting.interface))
            }
        }
        for place in hints.places(of: peer, at: now, on: links, own: own) where admits(place.address) {
            let isKnown = all.contains { $0.address == place.address && $0.port == place.port }
            let isResting = (failures[Door(peer: peer, address: place.address, port: place.port)] ?? .min) > now
            guard !isKnown, !isResting else { continue }
            all.append(.init(instance: .root, address: place.address, port: place.port, interface: 0))
        }
        return Array(IPAddress.alternating(all, \.address).prefix(Self.maximumCandidates))
    }

    /// The endpoint has proved itself at a candidate.
    package mutating func proved(_ candidate: Candidate, _ peer: EndpointID) {
        if proved.count >= Self.maximumFailures { proved.removeAll() }
        proved.insert(Door(peer: peer, address: candidate.address, port: candidate.port))
    }

    /// The endpoint was not reached at a candidate, or did not prove itself there. It is left alone for a while.
    package mutating func failed(_ candidate: Candidate, _ peer: EndpointID, at now: Int64, pause: Int64) {
        failures = failures.filter { $0.value > now }
        if failures.count >= Self.maximumFailures, let oldest = failures.min(by: { $0.value < $1.value }) { failures[oldest.key] = nil }
        let door = Door(peer: peer, address: candidate.address, port: candidate.port)
        failures[door] = now + pause
        proved.remove(door)
    }

    /// Another network: what could not be reached may be there now, and what was said may be wrong.
    package mutating func networkChanged() {
        failures = [:]
        hints.forgetTold()
    }

    /// Nothing that was seen holds any more.
    package mutating func reset() {
        sightings = [:]
        failures = [:]
        proved = []
        hints.forgetTold()
    }
}
