// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Looks for devices on this network that a person has made visible. It is used on an event loop.
final class VisibleDeviceBrowser {
    private let service: any NearbyService
    private var seen: [Int: [VisibleDevice]] = [:]
    private var names: [Int: String] = [:]
    let devices = CurrentValue<[VisibleDevice]>([])

    init(_ endpoint: EndpointContext) {
        service = endpoint.makeNearbyService()
        service.onInterfaces = { [weak self] in self?.names = Dictionary($0.map { ($0.index, $0.name) }) { first, _ in first } }
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
        let own = service.ownAddresses
        seen[interface] = instances.compactMap { instance in
            // A device says goodbye to its name before it takes another one, and must not be here twice.
            guard !instance.isEnding, let visible = Advertisement(strings: instance.text)?.visible else { return nil }
            return VisibleDevice(
                id: instance.name.labels.first.flatMap { DNSName([$0]) }.map { String("\($0)".dropLast()) } ?? "",
                name: DisplayText.sanitized(visible.name),
                kind: RemoteSystemKind(rawValue: visible.kind),
                mode: visible.mode == .pair ? .pair : .receive,
                candidates: instance.addresses.map {
                    NearbyPeers.Candidate(instance: instance.name, address: $0, port: instance.port, interface: interface)
                },
                interfaces: names[interface].map { [$0] } ?? [],
                isOnThisMachine: own.isSuperset(of: instance.addresses)
            )
        }
        // One network may be at several interfaces of this machine. Who copies the id of a device of another network has another port or name.
        let all = Dictionary(grouping: seen.sorted { $0.key < $1.key }.flatMap(\.value), by: \.shown).values.compactMap { same in
            same.first.map { $0.at(same.flatMap(\.candidates), same.flatMap(\.interfaces)) }
        }
        devices.update { $0 = all.sorted { ($0.name, $0.id) < ($1.name, $1.id) } }
    }
}

extension VisibleDevice {
    /// What is the same at all interfaces.
    fileprivate var shown: [String] { [id, name, kind.rawValue, mode.rawValue, "\(candidates.first?.port ?? 0)"] }
}
