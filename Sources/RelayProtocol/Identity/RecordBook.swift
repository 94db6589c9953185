// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The newest records of an account's endpoints: checks that a version never goes back, and that one version has
/// one content. A record seen before costs no signature check again. Holds at most `endpointsPerAccount` endpoints, and pinned
/// ones first: a relay that invents endpoints keeps no known one out.
package struct RecordBook: Sendable {
    package let account: String
    /// The endpoints that the account's own have seen and confirmed.
    package var pinned: Set<EndpointID>
    private let limits: Limits
    private var endpoints: [EndpointID: Signed<EndpointRecord>] = [:]
    private var registrations: [EndpointID: [String: Signed<AppRegistration>]] = [:]

    package init(account: String, pinned: Set<EndpointID> = [], limits: Limits = Limits()) {
        self.account = account
        self.pinned = pinned
        self.limits = limits
    }

    /// The newest record of an endpoint.
    package subscript(endpoint: EndpointID) -> Signed<EndpointRecord>? { endpoints[endpoint] }

    /// The newest registration of an endpoint's app.
    package subscript(endpoint: EndpointID, appID: String) -> Signed<AppRegistration>? { registrations[endpoint]?[appID] }

    /// Takes in an endpoint's record.
    /// - Parameter endpoint: whose record it must be, where that is known.
    @discardableResult
    package mutating func add(endpointRecord encoded: [UInt8], of endpoint: EndpointID? = nil) throws(RecordError) -> Signed<EndpointRecord>
    {
        if let endpoint, let known = endpoints[endpoint], known.encoded == encoded { return known }
        let record = try Signed<EndpointRecord>(verifying: encoded, limits: limits)
        let id = record.payload.endpointID
        guard endpoint.map({ $0 == id }) ?? true else { throw .wrongEndpoint }
        guard record.payload.account == account else { throw .wrongAccount }
        if let known = endpoints[id] {
            try Self.checkGrowth(of: record, over: known, version: \.version)
        } else {
            try makeRoom(for: id)
        }
        endpoints[id] = record
        return record
    }

    /// A pinned endpoint takes the place of one that is not, when the book is full.
    private mutating func makeRoom(for endpoint: EndpointID) throws(RecordError) {
        guard endpoints.count >= limits[.endpointsPerAccount] else { return }
        guard pinned.contains(endpoint), let other = endpoints.keys.filter({ !pinned.contains($0) }).min() else {
            return try limits.checkField(.endpointsPerAccount, endpoints.count + 1)
        }
        remove(other)
    }

    /// Takes in an app registration of a known endpoint.
    @discardableResult
    package mutating func add(appRegistration encoded: [UInt8], of endpoint: EndpointID) throws(RecordError) -> Signed<AppRegistration> {
        guard let record = endpoints[endpoint] else { throw .wrongEndpoint }
        let known = registrations[endpoint] ?? [:]
        if let same = known.values.first(where: { $0.encoded == encoded }) { return same }
        let registration = try Signed<AppRegistration>(verifying: encoded, from: record.payload, limits: limits)
        let appID = registration.payload.appID
        if let older = known[appID] { try Self.checkGrowth(of: registration, over: older, version: \.version) }
        let others = known.reduce(0) { $1.key == appID ? $0 : $0 + $1.value.encoded.count }
        try limits.checkField(.appRegistrationsBytes, others + encoded.count)
        registrations[endpoint, default: [:]][appID] = registration
        return registration
    }

    /// Forgets an endpoint that left the account, with its apps.
    package mutating func remove(_ endpoint: EndpointID) {
        endpoints[endpoint] = nil
        registrations[endpoint] = nil
    }

    private static func checkGrowth<Payload>(
        of offered: Signed<Payload>,
        over known: Signed<Payload>,
        version: (Payload) -> UInt64
    ) throws(RecordError) {
        let (knownVersion, offeredVersion) = (version(known.payload), version(offered.payload))
        guard offeredVersion >= knownVersion else { throw .outdated(known: knownVersion, offered: offeredVersion) }
        guard offeredVersion > knownVersion || offered.encoded == known.encoded else { throw .versionReused(offeredVersion) }
    }
}
