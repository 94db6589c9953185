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
    }

    /// The addresses of one endpoint that are dialled at once.
    package static let maximumCandidates = 8
    static let instancesOfAPeer = 4
    /// How long an instance is ignored at an address where it could not prove that it is the endpoint.
    package static let falsePause: Int64 = 600_000
    private static let maximumFailures = 1_024

    private struct Sighting {
        let instance: MulticastBrowser.Instance
        let interface: Int
        let advertisement: Advertisement
        let peer: EndpointID?
        let since: Int64
        var isProved = false
    }

    private struct Failure: Hashable {
        let instance: DNSName
        let address: IPAddress
        let port: UInt16
    }

    private struct Place: Hashable {
        let instance: DNSName
        let interface: Int
    }

    private var keys: [EndpointID: PairKeys] = [:]
    private var sightings: [Place: Sighting] = [:]
    private var failures: [Failure: Int64] = [:]

    package init() {}

    /// Replaces the endpoints that are recognised.
    package mutating func recognise(_ keys: [EndpointID: PairKeys]) {
        self.keys = keys
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
            let isSame = old?.advertisement == advertisement
            kept[place] = Sighting(
                instance: instance,
                interface: interface,
                advertisement: advertisement,
                peer: isSame ? old?.peer : peer(of: advertisement),
                since: old?.since ?? now,
                isProved: isSame && old?.isProved ?? false
            )
        }
        sightings = kept
    }

    /// The instances that may be known endpoints, which keep their place in the browser of an interface.
    package func recognised(on interface: Int) -> Set<DNSName> {
        Set(sightings.values.filter { $0.interface == interface && $0.peer != nil }.map(\.instance.name))
    }

    /// The number of instances.
    package var count: Int { Set(sightings.keys.map(\.instance)).count }

    /// The endpoints that may be here.
    /// - Parameter hour: Since 1970.
    package func present(hour: UInt32) -> Set<EndpointID> {
        Set(sightings.values.compactMap { $0.advertisement.isRecent(at: hour) ? $0.peer : nil })
    }

    /// What people in the same room may see, by instance.
    package func visible(hour: UInt32) -> [DNSName: Advertisement.Visible] {
        sightings.values.reduce(into: [:]) { all, sighting in
            if sighting.advertisement.isRecent(at: hour), let visible = sighting.advertisement.visible {
                all[sighting.instance.name] = visible
            }
        }
    }

    /// Where an endpoint may be dialled: proved instances first, then those that were seen first; the families of addresses alternate
    /// (RFC 8305 §4).
    package func candidates(for peer: EndpointID, hour: UInt32, at now: Int64, admits: (IPAddress) -> Bool) -> [Candidate] {
        let seen = sightings.values.filter { $0.peer == peer && $0.advertisement.isRecent(at: hour) }
            .sorted { ($0.isProved ? 0 : 1, $0.since, $0.interface) < ($1.isProved ? 0 : 1, $1.since, $1.interface) }
        var result: [Candidate] = []
        for sighting in seen.prefix(Self.instancesOfAPeer) {
            let all = sighting.instance.addresses.filter { address in
                admits(address)
                    && failures[.init(instance: sighting.instance.name, address: address, port: sighting.instance.port)].map { $0 <= now }
                        ?? true
            }
            let (six, four) = (all.filter { $0.bytes.count == 16 }, all.filter { $0.bytes.count == 4 })
            for index in 0..<max(six.count, four.count) {
                for family in [six, four] where index < family.count {
                    let candidate = Candidate(
                        instance: sighting.instance.name,
                        address: family[index],
                        port: sighting.instance.port,
                        interface: sighting.interface
                    )
                    // The same address on another interface leads to the same place, unless it is link-local.
                    let isNew = !result.contains {
                        $0.address == candidate.address && $0.port == candidate.port
                            && (!$0.address.isLinkLocal || $0.interface == candidate.interface)
                    }
                    if isNew { result.append(candidate) }
                }
            }
        }
        return Array(result.prefix(Self.maximumCandidates))
    }

    /// The endpoint has proved itself at a candidate.
    package mutating func proved(_ candidate: Candidate) {
        sightings[.init(instance: candidate.instance, interface: candidate.interface)]?.isProved = true
    }

    /// A candidate was not reached, or could not prove that it is the endpoint. It is left alone for a while.
    package mutating func failed(_ candidate: Candidate, at now: Int64, pause: Int64) {
        failures = failures.filter { $0.value > now }
        if failures.count >= Self.maximumFailures, let oldest = failures.min(by: { $0.value < $1.value }) { failures[oldest.key] = nil }
        failures[.init(instance: candidate.instance, address: candidate.address, port: candidate.port)] = now + pause
        sightings[.init(instance: candidate.instance, interface: candidate.interface)]?.isProved = false
    }

    /// Another network: nothing that was seen holds.
    package mutating func reset() {
        sightings = [:]
        failures = [:]
    }
}
