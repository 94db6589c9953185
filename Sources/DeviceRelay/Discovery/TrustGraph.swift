// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Which endpoints are known here, and how well: what follows from pins, vouchers, shared devices and revocations.
///
/// An endpoint is known if it is pinned, if a known endpoint vouches for it, or if it is part of the same device as a known endpoint, which the
/// device's system key has signed. Along such a chain the weakest knowledge counts; of several chains the best. Signatures have been checked
/// before anything gets here. No chain is longer than the number of endpoints, which the directory bounds.
struct TrustGraph: Sendable {
    typealias VerificationLevel = Voucher.VerificationLevel

    let own: EndpointID
    private(set) var pins: [EndpointID: VerificationLevel]
    /// Revoked for ever: by a statement that was signed by an endpoint which was known then.
    private(set) var revoked: Set<EndpointID>
    /// Revoked by the relay's word, for as long as the relay says it.
    private(set) var revokedByRelay: Set<EndpointID> = []
    /// All that are known; the own endpoint included.
    private(set) var known: [EndpointID: VerificationLevel] = [:]
    /// By the endpoint that gives the voucher, then by the endpoint that it is for.
    private var vouchers: [EndpointID: [EndpointID: VerificationLevel]] = [:]
    private var systems: [EndpointID: SystemID] = [:]

    init(own: EndpointID, pins: [EndpointID: VerificationLevel] = [:], revoked: Set<EndpointID> = []) {
        self.own = own
        self.pins = pins.filter { !revoked.contains($0.key) && $0.key != own }
        self.revoked = revoked
        refresh()
    }

    /// Whether nothing is taken from an endpoint, and nothing given to it.
    func isRefused(_ endpoint: EndpointID) -> Bool { revoked.contains(endpoint) || revokedByRelay.contains(endpoint) }

    /// What an endpoint's voucher for another one says.
    func voucher(by giver: EndpointID, for endpoint: EndpointID) -> VerificationLevel? { vouchers[giver]?[endpoint] }

    /// Whether the revocation of an endpoint counts here because of its signer: one that is known, or, if the endpoint itself is known, that
    /// endpoint or one of its device. Unknown endpoints, which a relay can make up, cannot fill what is kept.
    func mayRevoke(_ endpoint: EndpointID, signer: EndpointID) -> Bool {
        if signer == own { return true }
        guard !isRefused(signer) else { return false }
        if known[signer] != nil { return true }
        guard known[endpoint] != nil else { return false }
        return signer == endpoint || systems[signer].map { $0 == systems[endpoint] } ?? false
    }

    // MARK: Changes

    /// - Returns: Whether that is more than was known of it before.
    mutating func pin(_ endpoint: EndpointID, _ knowledge: VerificationLevel) -> Bool {
        guard endpoint != own, !revoked.contains(endpoint), pins[endpoint].map({ $0 < knowledge }) ?? true else { return false }
        pins[endpoint] = knowledge
        refresh()
        return true
    }

    /// The device that an endpoint's record says it is part of.
    mutating func setSystem(_ system: SystemID, of endpoint: EndpointID) {
        guard systems.updateValue(system, forKey: endpoint) != system else { return }
        refresh()
    }

    /// All vouchers for an endpoint, by those that give them.
    mutating func setVouchers(_ given: [EndpointID: VerificationLevel], for endpoint: EndpointID) {
        var hasChanged = false
        for giver in Set(vouchers.keys).union(given.keys) where vouchers[giver]?[endpoint] != given[giver] {
            vouchers[giver, default: [:]][endpoint] = given[giver]
            if vouchers[giver]?.isEmpty ?? false { vouchers[giver] = nil }
            hasChanged = true
        }
        if hasChanged { refresh() }
    }

    /// One more voucher for an endpoint.
    mutating func addVoucher(by giver: EndpointID, for endpoint: EndpointID, _ knowledge: VerificationLevel) {
        guard vouchers[giver, default: [:]].updateValue(knowledge, forKey: endpoint) != knowledge else { return }
        refresh()
    }

    /// An endpoint is revoked for ever. Its vouchers do not count any more.
    mutating func revoke(_ endpoint: EndpointID) {
        guard endpoint != own else { return }
        revoked.insert(endpoint)
        revokedByRelay.remove(endpoint)
        pins[endpoint] = nil
        refresh()
    }

    /// The relay says that an endpoint is revoked. Its pin stays, without effect.
    mutating func revokeByRelay(_ endpoint: EndpointID) {
        guard endpoint != own, !revoked.contains(endpoint), revokedByRelay.insert(endpoint).inserted else { return }
        refresh()
    }

    /// The relay does not say it any more.
    mutating func restore(_ endpoint: EndpointID) {
        if revokedByRelay.remove(endpoint) != nil { refresh() }
    }

    /// Nothing of an endpoint's record is kept. The vouchers that it gave count again once it is known again.
    mutating func forget(_ endpoint: EndpointID) {
        setVouchers([:], for: endpoint)
        if systems.removeValue(forKey: endpoint) != nil { refresh() }
    }

    // MARK: What follows

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
