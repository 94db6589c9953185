// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// This device while a person has made it visible: an advertisement with its name, and a listener for those who do not know it. It has both of
/// its own, so that any process of the endpoint can do it. It is used on the endpoint's event loop.
final class VisibleListener {
    private static let patience = Duration.seconds(5)
    private static let maximumHandshakes = 8

    private let endpoint: EndpointContext
    private let mode: Advertisement.Visible.Mode
    private let connector: SessionConnector
    private let service: any NearbyService
    private var listener: NearbyListener?
    private var port: UInt16?
    /// Oldest first.
    private var handshakes: [(source: KnockGate.Source, channel: any Channel)] = []
    private var isShown = true

    /// Decides which service a stranger may use.
    var admit: @Sendable (EndpointID, SessionOpening, KnockGate.Source) async -> SessionAdmission = { _, _, _ in
        .refuse(AppServiceError(.notAuthorized))
    }
    /// Called with each session, which nobody else keeps.
    var onSession: (PeerSession, KnockGate.Source) -> Void = { _, _ in }
    /// Called when the device is visible, and when its addresses have changed.
    var onPlaces: ([PairingLink.Place]) -> Void = { _ in }
    /// Called at most once, in place of the first `onPlaces`.
    var onFailure: (DevicePairingError) -> Void = { _ in }

    init(_ endpoint: EndpointContext, _ mode: Advertisement.Visible.Mode, _ connector: SessionConnector) {
        (self.endpoint, self.mode, self.connector) = (endpoint, mode, connector)
        service = endpoint.makeNearbyService(advertisesOnce: true)
    }

    private var loop: EndpointLoop { endpoint.loop }
    private var links: [LinkInterface] = []

    func start() {
        let listener = NearbyListener(
            loop,
            own: endpoint.id,
            source: { [weak self] in self?.source($0) },
            keys: { [:] },
            pairing: { [weak self] in self?.knocked($0) }
        )
        self.listener = listener
        listener.open { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let port): listens(at: port)
            case .failure(let error):
                onFailure(DevicePairingError(.failed, "this device cannot listen: \(error)", cause: error))
            }
        }
    }

    private func listens(at port: UInt16) {
        self.port = port
        service.onInterfaces = { [weak self] in self?.networkChanged($0) }
        links = NetworkInterfaces.read(endpoint.settings.nearby.interfaces).links
        guard !links.isEmpty else { return onFailure(.noNetwork) }
        service.start()
        show()
    }

    private func networkChanged(_ links: [LinkInterface]) {
        self.links = links
        guard let port, isShown else { return }
        let visible = Advertisement.Visible(name: endpoint.device.name, kind: endpoint.device.kind.rawValue, mode: mode)
        let (id, loop) = (endpoint.id, loop)
        let text = {
            var random = SystemRandomNumberGenerator()
            let hour = UInt32(clamping: loop.wallTime / 3_600_000)
            return Advertisement(of: id, hour: hour, for: [], visible: visible, using: &random).strings
        }
        service.advertise((port, text))
        show()
    }

    private func show() {
        guard let port, isShown else { return }
        onPlaces(links.flatMap(\.addresses).compactMap { PairingLink.Place($0.address, port: port) })
    }

    /// Says goodbye. Those who know the port can still connect.
    func hide() {
        isShown = false
        service.advertise(nil)
    }

    /// Takes no further connections. Sessions stay.
    func close() {
        hide()
        listener?.close()
    }

    /// Returns when its sockets are closed.
    func stop() async {
        close()
        await service.stop()
    }

    private func source(_ address: IPAddress) -> KnockGate.Source? {
        guard NearbyReach.local.admits(address, on: links) else { return nil }
        return KnockGate.Source(address, isOnLink: address.isLinkLocal || links.contains { $0.isOnLink(address) })
    }

    /// A handshake takes a moment, so whoever waits in one makes room for others: the oldest of the address that has the most.
    private func knocked(_ transport: KnockedTransport) {
        let channel = transport.channel
        guard let source = IPAddress(channel.remoteAddress).flatMap(source) else { return channel.close(promise: nil) }
        if handshakes.count >= Self.maximumHandshakes {
            let counts = Dictionary(handshakes.map { ($0.source, 1) }, uniquingKeysWith: +)
            let most = counts.values.max()
            if let index = handshakes.firstIndex(where: { counts[$0.source] == most }) {
                handshakes.remove(at: index).channel.close(promise: nil)
            }
        }
        handshakes.append((source, channel))
        let admit = admit
        let connector = connector.direct { await admit($0, $1, source) }
        loop.spawn(self) { listener in
            let link = try? await connector.accept(over: transport, timeout: Self.patience, isKnown: { _ in true })
            listener.handshakes.removeAll { $0.channel === channel }
            if case .session(let session)? = link { listener.onSession(session, source) }
        }
    }
}
