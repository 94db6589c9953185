// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// What the anonymous endpoint does with paired devices, and with unknown devices on its network.
extension LocalEndpoint {
    private var pairings: Pairings { Pairings(endpoint, identity: identity, publisher: publisher, peers: peers) }

    /// Makes this device visible.
    /// - Returns: Its state, which ends when it is over, and what stops it.
    /// - Throws: `limitExceeded`.
    func offerPairing() throws(DevicePairingError) -> (CurrentValue<DevicePairing.State>, NIOLoopBound<PairingHost>) {
        try pairings.checkRoom()
        let host = PairingHost(endpoint, pairings)
        pairingHosts = pairingHosts.filter { !$0.state.value.isOver } + [host]
        host.start()
        return (host.state, NIOLoopBound(host, eventLoop: endpoint.loop.eventLoop))
    }

    func pair(at candidates: [NearbyPeers.Candidate], by proof: PairingCaller.Proof) async throws(DevicePairingError) -> PairedDevice {
        let pairings = pairings
        try pairings.checkRoom()
        return try await PairingCaller(endpoint, pairings).pair(at: candidates, by: proof)
    }

    /// Looks for visible devices.
    func browse() -> (CurrentValue<[VisibleDevice]>, NIOLoopBound<VisibleDeviceBrowser>) {
        let browser = VisibleDeviceBrowser(endpoint)
        browsers.append(browser)
        browser.start()
        return (browser.devices, NIOLoopBound(browser, eventLoop: endpoint.loop.eventLoop))
    }

    func stopBrowsing(_ browser: NIOLoopBound<VisibleDeviceBrowser>) {
        browsers.removeAll { $0 === browser.value }
        endpoint.loop.spawn(browser.value) { await $0.stop() }
    }

    /// Makes this device visible, so that unknown devices on its network can offer files, links and texts.
    /// - Returns: Its state, which ends when it is over, and what stops it.
    func offerReception(_ handler: SharingHandler) -> (CurrentValue<ReceptionVisibility.State>, NIOLoopBound<ReceptionHost>) {
        let host = ReceptionHost(endpoint, room: shares.room, handler)
        receptionHosts = receptionHosts.filter { !$0.state.value.isOver } + [host]
        host.start()
        return (host.state, NIOLoopBound(host, eventLoop: endpoint.loop.eventLoop))
    }

    /// Ends all of it, with the endpoint.
    func endVisibility() async {
        for host in pairingHosts { await host.shutDown() }
        for host in receptionHosts { await host.shutDown() }
        for browser in browsers { await browser.stop() }
        (pairingHosts, receptionHosts, browsers) = ([], [], [])
    }

    func unpair(_ peer: EndpointID) async throws(DevicePairingError) -> Bool { try await pairings.unpair(peer) }
}
