// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where endpoints may be that are not seen on the network: where they say that they listen, and where they were reached last. Times are in
/// milliseconds.
package struct AddressHints {
    /// An address and port.
    package struct Place: Hashable, Sendable {
        package let address: IPAddress
        package let port: UInt16

        package init(address: IPAddress, port: UInt16) { (self.address, self.port) = (address, port) }
    }

    /// How long what a peer has said counts.
    package static let freshness: Int64 = 300_000
    /// How long the address that worked last counts.
    package static let memory: Int64 = 30 * 86_400_000
    /// How much newer the same place has to be to count as new.
    private static let renewal: Int64 = 86_400_000

    private struct Hint<Value> {
        let value: Value
        let until: Int64
    }

    private var told: [EndpointID: Hint<HostCandidates>] = [:]
    private var worked: [EndpointID: Hint<Place>] = [:]

    package init() {}

    /// An endpoint says where it listens, which replaces what it said before.
    package mutating func told(_ candidates: HostCandidates, by peer: EndpointID, at now: Int64) {
        told[peer] = Hint(value: candidates, until: now &+ Self.freshness)
    }

    /// An endpoint was reached at a place.
    /// - Parameter ago: How long ago that was.
    /// - Returns: Whether this is new, or a day newer than what was known.
    @discardableResult
    package mutating func worked(_ place: Place, for peer: EndpointID, at now: Int64, ago: Int64 = 0) -> Bool {
        let hint = Hint(value: place, until: now &+ Self.memory &- ago)
        if let old = worked[peer], old.value == place, hint.until - old.until < Self.renewal { return false }
        worked[peer] = hint
        return true
    }

    /// Another network: what was said may be wrong now.
    package mutating func forgetTold() { told = [:] }

    /// Keeps what is known of these endpoints only.
    package mutating func keep(_ isKept: (EndpointID) -> Bool) {
        told = told.filter { isKept($0.key) }
        worked = worked.filter { isKept($0.key) }
    }

    /// Where an endpoint may be dialled: first what it has said, then where it was reached last, if this machine is in that network.
    /// - Parameters:
    ///   - links: The interfaces of this machine that are used. Their own addresses are left out.
    ///   - own: All other addresses of this machine, which are left out, too: its firewall guards nothing from itself.
    package func places(of peer: EndpointID, at now: Int64, on links: [LinkInterface], own: () -> Set<IPAddress> = { [] }) -> [Place] {
        var places: [Place] = []
        if let hint = told[peer], hint.until > now {
            places = hint.value.addresses.map { Place(address: $0, port: hint.value.port) }
        }
        if let hint = worked[peer], hint.until > now, links.contains(where: { $0.isOnLink(hint.value.address) }) {
            places.append(hint.value)
        }
        guard !places.isEmpty else { return [] }
        let own = own().union(links.flatMap(\.addresses).map(\.address))
        var known: Set<Place> = []
        return places.filter { !own.contains($0.address) && known.insert($0).inserted }
    }
}
