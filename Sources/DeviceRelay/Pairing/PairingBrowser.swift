// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Looks for devices on this network that can be paired. It is used on an event loop.
final class PairingBrowser {
    private let service: any NearbyService
    private var seen: [Int: [VisibleDevice]] = [:]
    let devices = CurrentValue<[VisibleDevice]>([])

    init(_ endpoint: EndpointContext) {
        service = endpoint.makeNearbyService()
        service.onInstances = { [weak self] in self?.see($0, on: $1) }
        service.kept = { [weak self] in Set(self?.seen[$0]?.flatMap(\.candidates).map(\.instance) ?? []) }
        service.want(true)
    }

    func start() { service.start() }

    func stop() async {
        devices.finish()
        await service.stop()
    }

    private func see(_ instances: [MulticastBrowser.Instance], on interface: Int) {
        seen[interface] = instances.compactMap { instance in
            guard let visible = Advertisement(strings: instance.text)?.visible, visible.mode == .pair else { return nil }
            return VisibleDevice(
                id: "\(instance.name)",
                name: DisplayText.sanitized(visible.name),
                kind: RemoteSystemKind(rawValue: visible.kind),
                candidates: instance.addresses.map {
                    NearbyPeers.Candidate(instance: instance.name, address: $0, port: instance.port, interface: interface)
                }
            )
        }
        // One network may be at several interfaces of this machine.
        let all = Dictionary(grouping: seen.sorted { $0.key < $1.key }.flatMap(\.value), by: \.id).values.compactMap { same in
            same.first.map { VisibleDevice(id: $0.id, name: $0.name, kind: $0.kind, candidates: same.flatMap(\.candidates)) }
        }
        devices.update { $0 = all.sorted { ($0.name, $0.id) < ($1.name, $1.id) } }
    }
}
