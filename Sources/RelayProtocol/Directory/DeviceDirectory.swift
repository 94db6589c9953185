// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The endpoints of one account. From the relay's events it derives devices, device events and resolved targets.
///
/// The size is bounded, whatever a relay sends: at most the relay's `endpointsPerAccount`, and at most 1,024 endpoints. When the directory
/// is full, a confirmed endpoint replaces an unconfirmed one. A new endpoint replaces a new one that the running enumeration has not listed; without such a one it is rejected, and watchers receive an error. So a relay that
/// invents endpoints can displace new ones, but never a known one. The record limits bound what an endpoint publishes.
package struct DeviceDirectory: Sendable {
    /// The verified state of an endpoint: its record, registrations and presence.
    package struct Endpoint: Hashable, Sendable {
        package var record: EndpointRecord {
            didSet { (id, systemID) = (record.endpointID, RemoteSystem.ID(record.systemID)) }
        }
        /// Cached from the record, because their computation hashes keys.
        package private(set) var id: EndpointID
        package private(set) var systemID: RemoteSystem.ID
        /// At most one for each app id.
        package var registrations: [AppRegistration]
        private var presences: PathPresences
        /// The best of all paths to it.
        package var presence: Presence { presences.best }
        package var trust: Trust
        /// How a confirmed endpoint is known; meaningless for a new one.
        package var knowledge: Voucher.VerificationLevel
        /// How it joined the account, according to the relay.
        package var joining: Joining?
        /// Whether the endpoint that invited it has been revoked since.
        package var isInviterRevoked: Bool
        /// Whether this is the directory's own endpoint.
        package var isLocal: Bool

        package init(
            record: EndpointRecord,
            registrations: [AppRegistration],
            presence: Presence,
            trust: Trust,
            knowledge: Voucher.VerificationLevel = .verified,
            joining: Joining? = nil,
            isInviterRevoked: Bool = false,
            isLocal: Bool = false
        ) {
            self.record = record
            self.id = record.endpointID
            self.systemID = RemoteSystem.ID(record.systemID)
            self.registrations = registrations
            self.presences = PathPresences(relay: presence)
            self.trust = trust
            self.knowledge = knowledge
            self.joining = joining
            self.isInviterRevoked = isInviterRevoked
            self.isLocal = isLocal
        }

        /// The presence on one path; `nil` if nothing is known there.
        package func presence(on path: PathPresences.Path) -> Presence? { presences[path] }

        /// Sets the presence on a path; `nil` if nothing is known there.
        package mutating func setPresence(_ presence: Presence?, on path: PathPresences.Path) { presences[path] = presence }

        package var isConfirmed: Bool { isLocal || trust != .new }

        /// Whether the endpoint is confirmed by more than the relay's listing when this endpoint joined.
        package var isVerified: Bool { isLocal || trust != .new && knowledge == .verified }
    }

    /// Whether an endpoint is known, and why.
    package enum Trust: Hashable, Sendable {
        /// It is unknown.
        case new
        /// A chain of vouchers from a pinned endpoint leads to it, or it belongs to a known device.
        case approved
        /// This endpoint joined by its link, saw it at the first enumeration, or its user confirmed it.
        case pinned
    }

    /// A device in one of two views, with or without the own endpoint, and the revision of its last change.
    struct Device: Sendable {
        let system: RemoteSystem
        let revision: UInt64
    }

    /// The account's id, for filters.
    package let account: String
    /// Grows with every change that an iteration may report.
    package private(set) var revision: UInt64 = 0
    /// Whether an enumeration has completed once.
    package private(set) var isEnumerated = false
    /// Whether the last enumeration that began has completed.
    package private(set) var isComplete = false
    private(set) var error: (value: RemoteSystemWatcherError, revision: UInt64)?

    private var maximumEndpoints: Int
    private(set) var endpoints: [EndpointID: Endpoint] = [:]
    /// Endpoints that the running enumeration has not listed yet.
    private var unnamed: Set<EndpointID> = []
    private var allDevices: [RemoteSystem.ID: Device] = [:]
    private var remoteDevices: [RemoteSystem.ID: Device] = [:]

    package init(account: String, limits: Limits = Limits()) {
        self.account = account
        self.maximumEndpoints = limits[.endpointsPerAccount]
    }

    /// The maximum number of endpoints, whatever the relay's limit is.
    package static let maximumEndpoints = 1_024

    /// Sets the relay's limit of endpoints for the account.
    package mutating func allow(endpoints count: Int) { maximumEndpoints = min(max(1, count), Self.maximumEndpoints) }

    /// All endpoints, in the order of their ids.
    package var endpointIDs: [EndpointID] { endpoints.keys.sorted() }

    /// All endpoints, in the order of their ids.
    package var sortedEndpoints: [Endpoint] { endpointIDs.compactMap { endpoints[$0] } }

    /// The endpoint with this id.
    package subscript(endpoint: EndpointID) -> Endpoint? { endpoints[endpoint] }
}

// MARK: - Events
extension DeviceDirectory {
    /// The result of adding an endpoint.
    package enum Admission: Hashable, Sendable {
        case admitted
        /// Another endpoint was removed: forget its records too.
        case admittedInsteadOf(EndpointID)
        /// The directory is full: forget the endpoint's records.
        case refused
    }

    /// Adds an endpoint, or replaces its state.
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

    /// Changes the state of an endpoint; an unknown id is ignored.
    package mutating func update(_ id: EndpointID, _ change: (inout Endpoint) -> Void) {
        guard var endpoint = endpoints[id] else { return }
        change(&endpoint)
        // An endpoint with another id would be another endpoint.
        guard endpoint.id == id else { return }
        set(endpoint, for: id)
    }

    /// Removes an endpoint.
    package mutating func remove(_ id: EndpointID) {
        unnamed.remove(id)
        set(nil, for: id)
    }

    /// Starts an enumeration. The relay sends one on every new connection.
    package mutating func beginEnumeration() {
        unnamed = Set(endpoints.keys)
        isComplete = false
        error = nil
    }

    /// Completes the enumeration. Endpoints that the relay did not list are removed.
    /// - Returns: The removed ids, in order.
    @discardableResult
    package mutating func completeEnumeration() -> [EndpointID] {
        let gone = unnamed.sorted()
        for id in gone { set(nil, for: id) }
        unnamed = []
        isComplete = true
        if !isEnumerated {
            isEnumerated = true
            revision &+= 1
        }
        return gone
    }

    /// Sets the presence at the relay of all endpoints to unknown, because the connection to the relay failed. Repeated calls keep the
    /// time of the first one.
    package mutating func loseRelay(at time: Milliseconds) {
        for (id, endpoint) in endpoints where endpoint.presence(on: .relay)?.reason != .relayUnreachable {
            update(id) { $0.setPresence(Presence(.unknown, .relayUnreachable, since: time), on: .relay) }
        }
    }

    /// Reports an error of discovery. It lasts until the next enumeration starts.
    package mutating func report(_ error: RemoteSystemWatcherError) {
        // An unchanged error is not reported again.
        guard self.error?.value != error else { return }
        revision &+= 1
        self.error = (error, revision)
    }

    /// The endpoint to remove: a new one that the enumeration has not listed; for a confirmed endpoint, any new one.
    private func victim(for endpoint: Endpoint) -> EndpointID? {
        let new = endpoints.filter { !$0.value.isConfirmed }.keys
        return new.filter(unnamed.contains).max() ?? (endpoint.isConfirmed ? new.max() : nil)
    }

    private mutating func set(_ endpoint: Endpoint?, for id: EndpointID) {
        let old = endpoints[id]
        guard old != endpoint else { return }
        endpoints[id] = endpoint
        // A changed record may move an endpoint to another device.
        for system in Set([old, endpoint].compactMap { $0?.systemID }) { refresh(system) }
    }

    private mutating func refresh(_ id: RemoteSystem.ID) {
        revision &+= 1
        allDevices[id] = aggregate(id, hidesLocalApp: false).map { Device(system: $0, revision: revision) }
        remoteDevices[id] = aggregate(id, hidesLocalApp: true).map { Device(system: $0, revision: revision) }
    }
}

// MARK: - Queries
extension DeviceDirectory {
    /// The devices that pass the filters, sorted by name.
    package func systems(matching filters: [RemoteSystemFilter] = []) -> [RemoteSystem] {
        let filters = RemoteSystemFilterSet(filters)
        let systems = devices(hidesLocalApp: filters.hidesLocalApp).values.lazy.map(\.system)
        return systems.filter { filters.matches($0, account: account) }.sorted { left, right in
            let names = (left.displayName.lowercased(), right.displayName.lowercased())
            return names.0 == names.1 ? left.id < right.id : names.0 < names.1
        }
    }

    func devices(hidesLocalApp: Bool) -> [RemoteSystem.ID: Device] { hidesLocalApp ? remoteDevices : allDevices }
}
