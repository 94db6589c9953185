// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The endpoints of one account in; devices, changes of devices and resolved targets out.
///
/// Bounded, whatever a relay sends: it holds no more endpoints than the relay's `endpointsPerAccount`, and 1,024. When it is full, an endpoint that
/// is confirmed takes the place of one that is not, and a new one is turned away, which watchers are told; so a relay that
/// makes endpoints up can crowd out other new ones, never a known one. What an endpoint may publish is bounded by its records.
package struct DeviceDirectory: Sendable {
    /// What is known of an endpoint. Records and registrations have been verified.
    package struct Endpoint: Hashable, Sendable {
        package var record: EndpointRecord {
            didSet { (id, systemID) = (record.endpointID, record.systemID) }
        }
        /// The record's, kept because working them out means hashing keys.
        package private(set) var id: EndpointID
        package private(set) var systemID: SystemID
        /// At most one for each app id.
        package var registrations: [AppRegistration]
        package var presence: Presence
        package var trust: Trust
        /// How a confirmed endpoint is known; without meaning for a new one.
        package var knowledge: Voucher.Knowledge
        /// How it came into the account, by the relay's word.
        package var joining: Joining?
        /// The endpoint that invited it was revoked since.
        package var isInviterRevoked: Bool
        /// This is the endpoint that the directory belongs to.
        package var isLocal: Bool

        package init(
            record: EndpointRecord,
            registrations: [AppRegistration],
            presence: Presence,
            trust: Trust,
            knowledge: Voucher.Knowledge = .verified,
            joining: Joining? = nil,
            isInviterRevoked: Bool = false,
            isLocal: Bool = false
        ) {
            self.record = record
            self.id = record.endpointID
            self.systemID = record.systemID
            self.registrations = registrations
            self.presence = presence
            self.trust = trust
            self.knowledge = knowledge
            self.joining = joining
            self.isInviterRevoked = isInviterRevoked
            self.isLocal = isLocal
        }

        package var isConfirmed: Bool { isLocal || trust != .new }

        /// Confirmed, and not only because it was listed when this endpoint joined.
        package var isVerified: Bool { isLocal || trust != .new && knowledge == .verified }
    }

    /// Whether an endpoint is known, and by what.
    package enum Trust: Hashable, Sendable {
        /// It is not known.
        case new
        /// A chain of vouchers leads to it from a pinned endpoint, or it is part of a known device.
        case approved
        /// This endpoint joined by its link, saw it at the first enumeration, or its person confirmed it.
        case pinned
    }

    /// A device in one of its two views, with or without the own endpoint, and when something about it last changed.
    struct Device: Sendable {
        let system: RemoteSystem
        let revision: UInt64
    }

    /// The account's id, as filters name it.
    package let account: String
    /// Grows with everything that an iteration may have to tell.
    package private(set) var revision: UInt64 = 0
    /// Whether everything there was to be found has once been told.
    package private(set) var isEnumerated = false
    private(set) var error: (value: RemoteSystemWatcherError, revision: UInt64)?

    private var maximumEndpoints: Int
    private(set) var endpoints: [EndpointID: Endpoint] = [:]
    /// Those the running enumeration has not named yet.
    private var unnamed: Set<EndpointID> = []
    private var allDevices: [SystemID: Device] = [:]
    private var remoteDevices: [SystemID: Device] = [:]

    package init(account: String, limits: Limits = Limits()) {
        self.account = account
        self.maximumEndpoints = limits[.endpointsPerAccount]
    }

    /// What is held of an account, whatever the relay's limit is.
    package static let mostEndpoints = 1_024

    /// How many endpoints the account may have at its relay.
    package mutating func allow(endpoints count: Int) { maximumEndpoints = min(max(1, count), Self.mostEndpoints) }

    /// All endpoints, in the order of their ids.
    package var endpointIDs: [EndpointID] { endpoints.keys.sorted() }

    /// The endpoint of an id.
    package subscript(endpoint: EndpointID) -> Endpoint? { endpoints[endpoint] }
}

// What happens.
extension DeviceDirectory {
    /// What became of an endpoint that was added.
    package enum Admission: Hashable, Sendable {
        case admitted
        /// Another one had to go: forget that one's records too.
        case admittedInsteadOf(EndpointID)
        /// The directory is full: forget its records.
        case refused
    }

    /// An endpoint is there: new, or with everything about it as it is now.
    @discardableResult
    package mutating func add(_ endpoint: Endpoint) -> Admission {
        unnamed.remove(endpoint.id)
        guard endpoints[endpoint.id] == nil, endpoints.count >= maximumEndpoints else {
            set(endpoint, for: endpoint.id)
            return .admitted
        }
        guard let victim = victim(for: endpoint) else {
            let exceeded = LimitExceeded(limit: .endpointsPerAccount, allowed: maximumEndpoints, requested: maximumEndpoints + 1)
            report(RemoteSystemWatcherError(.limitExceeded, message: "\(exceeded); remove devices that are not used"))
            return .refused
        }
        remove(victim)
        set(endpoint, for: endpoint.id)
        return .admittedInsteadOf(victim)
    }

    /// Something about an endpoint changed; one that is not known is passed over.
    package mutating func update(_ id: EndpointID, _ change: (inout Endpoint) -> Void) {
        guard var endpoint = endpoints[id] else { return }
        change(&endpoint)
        // Under another id it would be another endpoint.
        guard endpoint.id == id else { return }
        set(endpoint, for: id)
    }

    /// An endpoint is gone.
    package mutating func remove(_ id: EndpointID) {
        unnamed.remove(id)
        set(nil, for: id)
    }

    /// The relay begins to tell all endpoints, as it does on every new connection.
    package mutating func beginEnumeration() {
        unnamed = Set(endpoints.keys)
        error = nil
    }

    /// The relay has told all endpoints: those it did not name are gone.
    /// - Returns: their ids, in order.
    @discardableResult
    package mutating func completeEnumeration() -> [EndpointID] {
        let gone = unnamed.sorted()
        for id in gone { set(nil, for: id) }
        unnamed = []
        if !isEnumerated {
            isEnumerated = true
            revision &+= 1
        }
        return gone
    }

    /// The connection to the relay is lost, or could not be made: how an endpoint is, is unknown since the first time.
    package mutating func loseRelay(at time: Milliseconds) {
        for (id, endpoint) in endpoints where endpoint.presence.reason != .relayUnreachable {
            update(id) { $0.presence = Presence(.unknown, .relayUnreachable, since: time) }
        }
    }

    /// Discovery is disturbed, until the next enumeration begins.
    package mutating func report(_ error: RemoteSystemWatcherError) {
        // The same trouble again is no news.
        guard self.error?.value != error else { return }
        revision &+= 1
        self.error = (error, revision)
    }

    /// Who makes room: a new endpoint that the enumeration has not named; for a confirmed one any new one.
    private func victim(for endpoint: Endpoint) -> EndpointID? {
        let new = endpoints.filter { !$0.value.isConfirmed }.keys
        return new.filter(unnamed.contains).max() ?? (endpoint.isConfirmed ? new.max() : nil)
    }

    private mutating func set(_ endpoint: Endpoint?, for id: EndpointID) {
        let old = endpoints[id]
        guard old != endpoint else { return }
        endpoints[id] = endpoint
        // A record may move an endpoint to another device.
        for system in Set([old, endpoint].compactMap { $0?.systemID }) { refresh(system) }
    }

    private mutating func refresh(_ id: SystemID) {
        revision &+= 1
        allDevices[id] = aggregate(id, hidesLocalApp: false).map { Device(system: $0, revision: revision) }
        remoteDevices[id] = aggregate(id, hidesLocalApp: true).map { Device(system: $0, revision: revision) }
    }
}

// What is there.
extension DeviceDirectory {
    /// The devices that pass the filters, by name.
    package func systems(matching filters: [RemoteSystemFilter] = []) -> [RemoteSystem] {
        let filters = RemoteSystemFilterSet(filters)
        let systems = devices(hidesLocalApp: filters.hidesLocalApp).values.lazy.map(\.system)
        return systems.filter { filters.matches($0, account: account) }.sorted { left, right in
            let names = (left.displayName.lowercased(), right.displayName.lowercased())
            return names.0 == names.1 ? left.id < right.id : names.0 < names.1
        }
    }

    func devices(hidesLocalApp: Bool) -> [SystemID: Device] { hidesLocalApp ? remoteDevices : allDevices }
}
