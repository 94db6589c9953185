// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The newest records of an account's endpoints. It checks that a version never decreases, and that a version has only
/// one content. A record with unchanged bytes needs no second signature check.
///
/// The `DeviceDirectory` bounds the number of endpoints: records of an endpoint that it rejects must be forgotten here.
package struct RecordBook: Sendable {
    /// The highest versions of an endpoint. They survive its removal, so that a relay cannot remove an endpoint and bring it
    /// back with an older record.
    private struct Floor {
        var record: UInt64 = 0
        var apps: [String: UInt64] = [:]
    }

    /// The maximum number of apps of an endpoint whose versions are kept.
    package static let maximumApps = 256

    package let account: String
    private var floors: [EndpointID: Floor] = [:]
    private let limits: Limits
    private var endpoints: [EndpointID: Signed<EndpointRecord>] = [:]
    private var registrations: [EndpointID: [Signed<AppRegistration>]] = [:]

    package init(account: String, limits: Limits = Limits()) {
        self.account = account
        self.limits = limits
    }

    /// The newest record of an endpoint.
    package subscript(endpoint: EndpointID) -> Signed<EndpointRecord>? { endpoints[endpoint] }

    /// The registrations of an endpoint.
    package func registrations(of endpoint: EndpointID) -> [Signed<AppRegistration>] { registrations[endpoint] ?? [] }

    /// Adds the record of an endpoint.
    /// - Parameter endpoint: The expected endpoint, if it is known.
    @discardableResult
    package mutating func add(endpointRecord encoded: [UInt8], of endpoint: EndpointID? = nil) throws(RecordError) -> Signed<EndpointRecord>
    {
        if let endpoint, let known = endpoints[endpoint], known.encoded == encoded { return known }
        let record = try Signed<EndpointRecord>(verifying: encoded, limits: limits)
        let id = record.payload.endpointID
        guard endpoint.map({ $0 == id }) ?? true else { throw .wrongEndpoint }
        guard record.payload.account == account else { throw .wrongAccount }
        let floor = floors[id]?.record ?? 0
        try Self.checkGrowth(record.payload.version, over: floor, isSame: endpoints[id].map { $0.payload == record.payload } ?? true)
        endpoints[id] = record
        floors[id, default: Floor()].record = record.payload.version
        return record
    }

    /// Replaces all app registrations of a known endpoint.
    @discardableResult
    package mutating func set(
        appRegistrations encoded: [[UInt8]],
        of endpoint: EndpointID
    ) throws(RecordError) -> [Signed<AppRegistration>] {
        guard let record = endpoints[endpoint] else { throw .wrongEndpoint }
        try limits.checkField(.appRegistrationsBytes, encoded.reduce(0) { $0 + $1.count })
        let known = registrations[endpoint] ?? []
        var floor = floors[endpoint] ?? Floor()
        var taken: [Signed<AppRegistration>] = []
        for bytes in encoded {
            if let same = known.first(where: { $0.encoded == bytes }) {
                taken.append(same)
                continue
            }
            let registration = try Signed<AppRegistration>(verifying: bytes, from: record.payload, limits: limits)
            let (appID, version) = (registration.payload.appID, registration.payload.version)
            let older = known.first { $0.payload.appID == appID }
            try Self.checkGrowth(version, over: floor.apps[appID] ?? 0, isSame: older.map { $0.payload == registration.payload } ?? true)
            floor.apps[appID] = version
            taken.append(registration)
        }
        let apps = Set(taken.map(\.payload.appID))
        guard apps.count == taken.count else { throw .invalidField("appID") }
        if floor.apps.count > Self.maximumApps { floor.apps = floor.apps.filter { apps.contains($0.key) } }
        floors[endpoint] = floor
        registrations[endpoint] = taken
        return taken
    }

    /// Verifies registrations, such as stored ones, without taking them. Those that are not valid are left out.
    package func verified(_ registrations: [[UInt8]], of record: EndpointRecord) -> [AppRegistration] {
        registrations.compactMap { try? Signed<AppRegistration>(verifying: $0, from: record, limits: limits).payload }
    }

    /// Removes the registrations of an endpoint that is gone; its record is kept.
    package mutating func removeRegistrations(of endpoint: EndpointID) { registrations[endpoint] = nil }

    /// Removes an endpoint that is gone. If it returns, an older record is rejected.
    package mutating func remove(_ endpoint: EndpointID) {
        endpoints[endpoint] = nil
        registrations[endpoint] = nil
    }

    /// Removes an endpoint and its version floors: one that the directory rejected, or that was never pinned.
    package mutating func forget(_ endpoint: EndpointID) {
        remove(endpoint)
        floors[endpoint] = nil
    }

    /// - Parameter isSame: Whether the known content of this version, if any, is equal. A new signature over the same content
    ///   is permitted.
    private static func checkGrowth(_ offered: UInt64, over known: UInt64, isSame: Bool) throws(RecordError) {
        guard offered >= known else { throw .outdated(known: known, offered: offered) }
        guard offered > known || isSame else { throw .versionReused(offered) }
    }
}
