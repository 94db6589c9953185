// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What came of a diagnosis of the network between this endpoint and another one.
package enum NetworkExamination: Hashable, Sendable {
    /// The other endpoint does not know how: it is of an older version.
    case tooOld
    /// It does not use the local network.
    case switchedOff
    /// - network: The own network that both are in.
    /// - port: Where the other endpoint listens.
    case observed(NetworkObservations, network: IPNetwork?, port: UInt16?)
}

extension LocalEndpoint {
    private static let patience = Duration.seconds(15)

    /// Finds out, together with another endpoint of the account, what passes on the local network between the two.
    /// - Returns: `nil` if this endpoint does not use it.
    /// - Throws: Why the other endpoint cannot be asked.
    func examineNetwork(to peer: EndpointID) async throws(AppServiceError) -> NetworkExamination? {
        guard let nearby else { return nil }
        // The service has to run for a moment.
        if !nearby.isOpen { _ = await nearby.look() }
        let connection: AppServiceConnection
        do throws(AppServiceError) {
            let target = ResolvedTarget(endpoint: peer, appID: DoctorMessages.info.appID)
            connection = try await open(DoctorMessages.info, on: target, from: nil, timeout: Self.patience)
        } catch {
            guard error.code == .appNotInstalled || error.code == .appServiceUnavailable else { throw error }
            return .tooOld
        }
        defer { connection.close() }
        let there = try await connection.call(DoctorMessages.Look(), timeout: Self.patience)
        guard there.isUsed else { return .switchedOff }
        let here = NetworkObservations.Clock(time: endpoint.loop.wallTime, hour: nearby.hour)
        let addresses = there.addresses.prefix(NearbyReach.maximumNamed).compactMap(IPAddress.init(bytes:))
        let network = addresses.lazy.compactMap { nearby.network(of: $0) }.first
        let (outgoing, incoming) = await examine(nearby, connection, peer, addresses, there.port)
        let observations = NetworkObservations(
            sharesNetwork: network != nil,
            outgoing: outgoing,
            incoming: incoming,
            here: here,
            there: .init(time: there.time, hour: there.hour)
        )
        return .observed(observations, network: network, port: there.port)
    }

    private func examine(
        _ nearby: NearbyNetwork,
        _ connection: AppServiceConnection,
        _ peer: EndpointID,
        _ addresses: [IPAddress],
        _ port: UInt16?
    ) async -> (outgoing: NetworkObservations.Direction, incoming: NetworkObservations.Direction) {
        var random = SystemRandomNumberGenerator()
        let (mine, theirs) = (MulticastProbe(using: &random), MulticastProbe(using: &random))
        let (echo, heard) = (nearby.listen(for: mine), nearby.listen(for: theirs))
        let listener = await nearby.openListener()
        let named = nearby.namedAddresses.map(\.bytes)
        defer {
            nearby.endListening(for: mine)
            nearby.endListening(for: theirs)
            listener?.listener.close()
        }
        let ownPort = listener?.port
        let probes = nearby.service.canProbe
        // The other endpoint works while this one does.
        async let heardThere = probes ? try? connection.call(DoctorMessages.Hear(nonce: mine.nonce), timeout: Self.patience) : nil
        async let saidThere = probes ? try? connection.call(DoctorMessages.Say(nonce: theirs.nonce), timeout: Self.patience) : nil
        async let dialledThere = Self.dial(ownPort, named, over: connection)
        let sending = endpoint.loop.spawn(nearby) { await $0.repeatProbe(mine) }
        let isHeardThere = await heardThere?.isHeard
        sending?.cancel()
        let isEchoed = await nearby.wait(for: echo, Self.echoPatience)
        let isHeardByItself = await saidThere?.isHeard
        let isHeardHere = await nearby.wait(for: heard, Self.echoPatience)
        let outgoing: [DialReport]
        if let port {
            outgoing = await nearby.dial(addresses, port: port, of: peer)
        } else {
            // It says itself that it does not listen.
            outgoing = []
        }
        return (
            .init(multicast: isHeardThere.map { .init(isHeardBySender: isEchoed, isHeardByReceiver: $0) }, dials: outgoing),
            .init(
                multicast: isHeardByItself.map { .init(isHeardBySender: $0, isHeardByReceiver: isHeardHere) },
                dials: await dialledThere ?? []
            )
        )
    }

    private static let echoPatience = Duration.milliseconds(300)

    /// What the other endpoint reports of its dials to this one.
    private static func dial(_ port: UInt16?, _ addresses: [[UInt8]], over connection: AppServiceConnection) async -> [DialReport]? {
        guard let port, !addresses.isEmpty else { return nil }
        return try? await connection.call(DoctorMessages.Dial(port: port, addresses: addresses), timeout: patience).reports
            .prefix(NearbyReach.maximumNamed).map { $0 }
    }
}

extension ConnectedDevicesPlatform {
    /// Finds out, together with another endpoint of an account, what passes on the local network between the two.
    /// - Returns: `nil` if this device does not use it.
    package func examineNetwork(
        to peer: EndpointID,
        for account: ConnectedDevicesAccount
    ) async throws(AppServiceError) -> NetworkExamination? {
        try await endpoint(of: account.id)?.examineNetwork(to: peer)
    }
}
