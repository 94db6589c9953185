// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
package import RelayProtocol

/// What an endpoint sees of its local network now, for diagnosis.
package struct NearbyView: Hashable, Sendable {
    /// Whether a known endpoint has direct paths.
    package let knowsPeers: Bool
    /// The names of the interfaces that are used.
    package let interfaces: [String]
    /// The number of instances of the service, besides this endpoint's own ones.
    package let instances: Int
    /// The known endpoints that these seem to be.
    package let known: Set<EndpointID>
    /// Known endpoints whose clocks say another hour, so that they are not recognised: how many hours each is ahead.
    package let otherHours: [EndpointID: Int]
    /// Whether this machine permits multicast DNS on an interface.
    package let isOpen: Bool
    /// Whether what is sent to everybody comes back; `nil` if that is not known.
    package let hearsItself: Bool?
}

/// Where a known endpoint is seen. Its advertisement says so, and no key has proved it yet.
package struct NearbySighting: Hashable, Sendable {
    package let endpoint: EndpointID
    package let addresses: [IPAddress]
    /// The names of the interfaces of this machine.
    package let interfaces: [String]
}

extension Array where Element: Hashable {
    /// Each element once, where it is first.
    package var uniqued: [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}

extension ConnectedDevicesPlatform {
    /// Whether this machine has an interface now on which devices could be found.
    package var hasNearbyNetwork: Bool { !NetworkInterfaces.read(settings.nearby.interfaces).links.isEmpty }

    /// Runs a closure with where the known endpoints of an account are seen on this network: those that are seen now, and then each change. It
    /// has no elements if the network is not used.
    package func withNearbySightings<Result: Sendable>(
        for account: ConnectedDevicesAccount,
        _ body: (AsyncValues<[NearbySighting]>) async throws -> Result
    ) async throws -> Result {
        guard let endpoint = endpoint(of: account.id), let sightings = await endpoint.watchNearby() else {
            return try await body(AsyncValues(CurrentValue<[NearbySighting]>?.none) { $0 })
        }
        defer { endpoint.loop.execute { endpoint.assumeIsolated { $0.nearby?.endWatching() } } }
        return try await body(AsyncValues(sightings) { $0 })
    }
}
