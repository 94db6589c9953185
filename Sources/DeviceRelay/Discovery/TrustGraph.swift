// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Computes which endpoints are known here, and at which verification level, from pins, vouchers, shared devices and revocations.
///
/// An endpoint is known if it is pinned, if a known endpoint gave it a voucher, or if it is on the same device as a known endpoint, which
/// the device's system key has signed. A chain has the lowest level of its links, and an endpoint has the highest level of its chains.
/// Callers check all signatures before they add anything. A chain is never longer than the number of endpoints, which the directory limits.
struct TrustGraph: Sendable {
    typealias VerificationLevel = Voucher.VerificationLevel

    let own: EndpointID
    private(set) var pins: [EndpointID: VerificationLevel]
    /// Permanently revoked, by a statement of an endpoint that was known at that time.
    private(set) var revoked: Set<EndpointID>
    /// Revoked by a statement of the relay alone, for as long as the relay repeats it.
    private(set) var revokedByRelay: Set<EndpointID> = []
    /// All known endpoints, including the own one.
    private(set) var known: [EndpointID: VerificationLevel] = [:]
    /// By the giver, then by the endpoint that the voucher is for.
    private var vouchers: [EndpointID: [EndpointID: VerificationLevel]] = [:]
    private var systems: [EndpointID: SystemID] = [:]

    init(own: EndpointID, pins: [EndpointID: VerificationLevel] = [:], revoked: Set<EndpointID> = []) {
        self.own = own
        self.pins = pins.filter { !revoked.contains($0.key) && $0.key != own }
        self.revoked = revoked
        refresh()
    }

    /// Whether the endpoint is excluded: nothing is accepted from it or sent to it.
    func isRefused(_ endpoint: EndpointID) -> Bool { revoked.contains(endpoint) || revokedByRelay.contains(endpoint) }

    /// The level that an endpoint's voucher gives another one.
    func voucher(by giver: EndpointID, for endpoint: EndpointID) -> VerificationLevel? { vouchers[giver]?[endpoint] }

    /// Whether the signer may revoke the endpoint: the signer is known, or the endpoint is known and the signer is that endpoint or one on
    /// its device. Unknown endpoints, which a relay can invent, therefore cannot fill the stored revocations.
    func mayRevoke(_ endpoint: EndpointID, signer: EndpointID) -> Bool {
        if signer == own { return true }
        guard !isRefused(signer) else { return false }
        if known[signer] != nil { return true }
        guard known[endpoint] != nil else { return false }
        return signer == endpoint || systems[signer].map { $0 == systems[endpoint] } ?? false
    }

    // MARK: Changes

    /// - Returns: Whether this raises the endpoint's pinned level.
    mutating func pin(_ endpoint: EndpointID, _ knowledge: VerificationLevel) -> Bool {
        guard endpoint != own, !revoked.contains(endpoint), pins[endpoint].map({ $0 < knowledge }) ?? true else { return false }
        pins[endpoint] = knowledge
        refresh()
        return true
    }

    mutating func unpin(_ endpoint: EndpointID) {
        if pins.removeValue(forKey: endpoint) != nil { refresh() }
    }

    /// Sets the device that an endpoint's record names.
    mutating func setSystem(_ system: SystemID, of endpoint: EndpointID) {
        guard systems.updateValue(system, forKey: endpoint) != system else { return }
        refresh()
    }

    /// Replaces all vouchers for an endpoint.
    /// - Parameter given: The levels by giver.
    mutating func setVouchers(_ given: [EndpointID: VerificationLevel], for endpoint: EndpointID) {
        var hasChanged = false
        for giver in Set(vouchers.keys).union(given.keys) where vouchers[giver]?[endpoint] != given[giver] {
            vouchers[giver, default: [:]][endpoint] = given[giver]
            if vouchers[giver]?.isEmpty ?? false { vouchers[giver] = nil }
            hasChanged = true
        }
        if hasChanged { refresh() }
    }

    /// Adds a voucher for an endpoint.
    mutating func addVoucher(by giver: EndpointID, for endpoint: EndpointID, _ knowledge: VerificationLevel) {
        guard vouchers[giver, default: [:]].updateValue(knowledge, forKey: endpoint) != knowledge else { return }
        refresh()
    }

    /// Revokes an endpoint permanently. Its vouchers no longer count.
    mutating func revoke(_ endpoint: EndpointID) {
        guard endpoint != own else { return }
        revoked.insert(endpoint)
        revokedByRelay.remove(endpoint)
        pins[endpoint] = nil
        refresh()
    }

    /// Revokes an endpoint by a statement of the relay. Its pin stays stored, without effect.
    mutating func revokeByRelay(_ endpoint: EndpointID) {
        guard endpoint != own, !revoked.contains(endpoint), revokedByRelay.insert(endpoint).inserted else { return }
        refresh()
    }

    /// Ends a revocation by the relay, which no longer states it.
    mutating func restore(_ endpoint: EndpointID) {
        if revokedByRelay.remove(endpoint) != nil { refresh() }
    }

    /// Removes an endpoint's device and the vouchers for it. The vouchers that it gave count again once it is known again.
    mutating func forget(_ endpoint: EndpointID) {
        setVouchers([:], for: endpoint)
        if systems.removeValue(forKey: endpoint) != nil { refresh() }
    }

    // MARK: Computation

    private mutating func refresh() {
        var devices: [SystemID: [EndpointID]] = [:]
        for (endpoint, system) in systems { devices[system, default: []].append(endpoint) }
        known = [:]
        for knowledge in [VerificationLevel.verified, .firstSeen] {
            var queue = [own] + pins.filter { $0.value >= knowledge }.keys + known.keys
            var seen: Set<EndpointID> = []
            var seenDevices: Set<SystemID> = []
            while let endpoint = queue.popLast() {
                guard !isRefused(endpoint), seen.insert(endpoint).inserted else { continue }
                if known[endpoint] == nil { known[endpoint] = knowledge }
                for (other, word) in vouchers[endpoint] ?? [:] where word >= knowledge { queue.append(other) }
                if let system = systems[endpoint], seenDevices.insert(system).inserted { queue += devices[system] ?? [] }
            }
        }
    }
}
