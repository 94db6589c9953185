// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

@testable import RelayProtocol

/// Endpoints with the same ids in every run: their private keys are the numbers 1, 2, 3 …
enum DirectorySamples {
    static func key(_ number: UInt8) throws -> P256SigningKey {
        try P256SigningKey(rawRepresentation: Array(repeating: 0, count: 31) + [number])
    }

    static func systemKeyID(_ number: UInt8) throws -> SystemID { SystemID(try key(100 + number).publicKey) }
    static func system(_ number: UInt8) throws -> RemoteSystem.ID { RemoteSystem.ID(try systemKeyID(number)) }

    static func record(_ number: UInt8, on system: UInt8, name: String? = nil, kind: String = "desktop") throws -> EndpointRecord {
        try EndpointRecord(
            version: 1,
            account: "account",
            identityKey: try key(number).publicKey,
            systemKey: try key(100 + system),
            agreementKey: P256AgreementKey().publicKey,
            name: name ?? "System \(system)",
            kind: kind,
            platform: "linux"
        )
    }

    static func app(
        _ appID: String,
        of record: EndpointRecord,
        schemes: [String] = [],
        defaults: [String] = [],
        services: [String] = []
    ) -> AppRegistration {
        AppRegistration(
            version: 1,
            account: "account",
            endpoint: record.endpointID,
            appID: appID,
            displayName: appID,
            schemes: (schemes + defaults).map { AppRegistration.Scheme(name: $0, isDefault: defaults.contains($0)) },
            services: services.map { AppRegistration.Service(name: $0) }
        )
    }

    static func endpoint(
        _ number: UInt8,
        on system: UInt8,
        name: String? = nil,
        apps: [String] = ["app"],
        schemes: [String] = [],
        defaults: [String] = [],
        services: [String] = [],
        presence: Presence = .available,
        trust: DeviceDirectory.Trust = .pinned,
        isLocal: Bool = false
    ) throws -> DeviceDirectory.Endpoint {
        let record = try record(number, on: system, name: name)
        let apps = apps.map { app($0, of: record, schemes: schemes, defaults: defaults, services: services) }
        return DeviceDirectory.Endpoint(record: record, registrations: apps, presence: presence, trust: trust, isLocal: isLocal)
    }
}

extension Presence {
    static let available = Presence(.available, .connected, since: 1_000)
    static let asleep = Presence(.unavailable, .suspended, since: 1_000)
    static let off = Presence(.unavailable, .shutdown, since: 1_000)
}

extension DeviceDirectory {
    init(_ endpoints: Endpoint...) {
        self.init(account: "account")
        for endpoint in endpoints { add(endpoint) }
    }

    /// All devices, including the app's own endpoint.
    var everything: [RemoteSystem] { systems(matching: [.localVisibility(.showAll)]) }
}

/// The state that a listener derives from events alone. It throws if an event is inconsistent.
struct Listener {
    var iteration: DeviceDirectory.Iteration
    private(set) var systems: [RemoteSystem.ID: RemoteSystem] = [:]
    private(set) var errors: [RemoteSystemWatcherError] = []
    private(set) var enumerations = 0

    init(_ filters: [RemoteSystemFilter] = []) { self.iteration = DeviceDirectory.Iteration(matching: filters) }

    /// Reads one event.
    /// - Returns: `false` if there was none.
    mutating func step(_ directory: DeviceDirectory) throws -> Bool {
        struct Inconsistent: Error { let event: RemoteSystemEvent }
        guard let event = iteration.next(in: directory) else { return false }
        switch event {
        case .added(let system):
            guard systems.updateValue(system, forKey: system.id) == nil else { throw Inconsistent(event: event) }
        case .updated(let system):
            guard let old = systems.updateValue(system, forKey: system.id), old != system else { throw Inconsistent(event: event) }
        case .removed(let system):
            guard systems.removeValue(forKey: system.id) == system else { throw Inconsistent(event: event) }
        case .enumerationCompleted: enumerations += 1
        case .error(let error): errors.append(error)
        }
        return true
    }

    /// Reads all events.
    /// - Returns: Their number.
    @discardableResult
    mutating func drain(_ directory: DeviceDirectory) throws -> Int {
        var count = 0
        while try step(directory) { count += 1 }
        return count
    }
}
