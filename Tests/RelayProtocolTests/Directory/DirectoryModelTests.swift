// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// Applies random events to a directory and to a plain dictionary, and compares their devices.
@Suite struct DirectoryModelTests {
    private static let filters: [[RemoteSystemFilter]] = [
        [], [.localVisibility(.showAll)], [.status(.available)], [.kinds([.phone, .tablet]), .localVisibility(.showAll)],
        [.kinds([.desktop]), .status(.available)],
    ]

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func directoryAndIterationsMatchTheModel(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let records = try (1...9).map { number in
            try [UInt8(1), 2, 3, 4].flatMap { system in
                // Two kinds and several names, so that records change, sometimes to another device.
                try ["desktop", "phone"].map {
                    try DirectorySamples.record(UInt8(number), on: system, name: "\(number % 3) \($0)", kind: $0)
                }
            }
        }
        var model: [EndpointID: DeviceDirectory.Endpoint] = [:]
        var unnamed: Set<EndpointID> = []
        var directory = DeviceDirectory(account: "account")
        var listeners = Self.filters.map { Listener($0) }
        var time = 0
        var changes = 0

        for step in 0..<1_000 {
            time += 1
            guard let variants = records.randomElement(using: &random), let record = variants.randomElement(using: &random) else { return }
            let id = record.endpointID
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<7:
                let endpoint = Self.endpoint(record, time: time, using: &random)
                directory.add(endpoint)
                model[id] = endpoint
                unnamed.remove(id)
            case 7..<11:
                let presence = Self.presence(time: time, using: &random)
                let path: PathPresences.Path = random.oneIn(3) ? .nearby : .relay
                let known = path == .nearby && random.oneIn(2) ? nil : presence
                directory.update(id) { $0.setPresence(known, on: path) }
                model[id]?.setPresence(known, on: path)
            case 11..<13:
                let apps = Self.apps(of: record, using: &random)
                directory.update(id) { $0.registrations = apps }
                model[id]?.registrations = apps
            case 13:
                directory.update(id) { $0.trust = .pinned }
                model[id]?.trust = .pinned
            case 14:
                #expect(model[id].map { $0.systemID == RemoteSystem.ID($0.record.systemID) } ?? true)
                directory.update(id) { $0.record = record }
                model[id]?.record = record
            case 15..<17:
                directory.remove(id)
                model[id] = nil
                unnamed.remove(id)
            case 17:
                directory.beginEnumeration()
                unnamed = Set(model.keys)
            case 18 where random.oneIn(3):
                directory.completeEnumeration()
                for id in unnamed { model[id] = nil }
                unnamed = []
            case 19 where random.oneIn(5):
                directory.loseRelay(at: Milliseconds(clamping: time))
                // Repeated failures keep the time of the first one.
                for (id, endpoint) in model where endpoint.presence(on: .relay)?.reason != .relayUnreachable {
                    let presence = Presence(.unknown, .relayUnreachable, since: Milliseconds(clamping: time))
                    model[id]?.setPresence(presence, on: .relay)
                }
            default: break
            }

            for index in listeners.indices where random.oneIn(3) {
                // Some listeners stop early, so that later changes meet unreported ones.
                if random.oneIn(2) {
                    _ = try listeners[index].step(directory)
                } else {
                    changes += try listeners[index].drain(directory)
                    #expect(
                        Set(listeners[index].systems.values) == Set(directory.systems(matching: Self.filters[index])),
                        "seed \(seed), step \(step)"
                    )
                }
            }
            if let filters = Self.filters.randomElement(using: &random) {
                let systems = directory.systems(matching: filters)
                #expect(Set(systems.map(\.id)).count == systems.count)
                #expect(Set(systems) == Self.systems(in: model, matching: filters), "seed \(seed), step \(step)")
            }
        }
        #expect(changes > 300)
    }

    private static func presence(time: Int, using random: inout SeededGenerator) -> Presence {
        let since = Milliseconds(clamping: random.oneIn(2) ? 0 : time)
        let choices: [(RemoteSystemStatus, Presence.Reason)] = [
            (.available, .connected), (.discoveringAvailability, .waking), (.unknown, .relayStarting), (.unavailable, .suspended),
            (.unavailable, .lost), (.unavailable, .shutdown),
        ]
        let (state, reason) = choices.randomElement(using: &random) ?? (.unknown, .lost)
        return Presence(state, reason, since: since)
    }

    private static func apps(of record: EndpointRecord, using random: inout SeededGenerator) -> [AppRegistration] {
        ["a", "b", "c"].filter { _ in random.oneIn(2) }.map { DirectorySamples.app($0, of: record, schemes: ["https"], services: ["s"]) }
    }

    private static func endpoint(_ record: EndpointRecord, time: Int, using random: inout SeededGenerator) -> DeviceDirectory.Endpoint {
        let trusts: [DeviceDirectory.Trust] = [.new, .approved, .pinned]
        return DeviceDirectory.Endpoint(
            record: record,
            registrations: apps(of: record, using: &random),
            presence: presence(time: time, using: &random),
            trust: trusts.randomElement(using: &random) ?? .new,
            isLocal: random.oneIn(9)
        )
    }

    /// Computes the devices directly from the rules.
    private static func systems(in model: [EndpointID: DeviceDirectory.Endpoint], matching filters: [RemoteSystemFilter]) -> Set<
        RemoteSystem
    > {
        let isLocalShown = filters.contains(.localVisibility(.showAll))
        var systems: Set<RemoteSystem> = []
        for id in Set(model.values.map { $0.systemID }) {
            let all = model.values.filter { $0.systemID == id }
            let known = all.filter { $0.trust != .new || $0.isLocal }
            let shown = all.filter { isLocalShown || !$0.isLocal }
            let withApps = shown.filter { $0.registrations.count > 0 }
            if withApps.isEmpty { continue }
            let speaker = (known.isEmpty ? all : known).reduce(all[0]) { speaker, other in
                let isSpeakerKnown = known.isEmpty || known.contains(speaker)
                return !isSpeakerKnown || other.id < speaker.id ? other : speaker
            }
            let countable = withApps.filter { known.contains($0) }.isEmpty ? withApps : withApps.filter { known.contains($0) }
            let presences = countable.sorted { $0.id < $1.id }.map(\.presence)
            let rank: (Presence) -> Int = { presence in
                switch (presence.state, presence.reason) {
                case (.available, _): 0
                case (.discoveringAvailability, _): 1
                case (.unknown, _): 2
                case (.unavailable, .suspended): 3
                default: 4
                }
            }
            let top = presences.map(rank).min() ?? 4
            let best = presences.filter { rank($0) == top }
            let latest = best.compactMap(\.since).max()
            guard let presence = best.first(where: { $0.since == latest }) else { continue }
            var apps: [RemoteSystemApp] = []
            for endpoint in withApps {
                for registration in endpoint.registrations {
                    apps.append(
                        RemoteSystemApp(
                            id: .init(endpoint: endpoint.id, appID: registration.appID),
                            systemID: id,
                            accountID: "account",
                            displayName: registration.displayName,
                            attributes: [:],
                            schemes: ["https"],
                            appServices: [AppServiceInfo(name: "s", appID: registration.appID)],
                            identity: nil,
                            allowedApps: [],
                            presence: endpoint.presence,
                            isNew: !known.contains(endpoint),
                            isVerified: known.contains(endpoint),
                            joining: nil
                        )
                    )
                }
            }
            let system = RemoteSystem(
                id: id,
                accountID: "account",
                displayName: speaker.record.name,
                kind: RemoteSystemKind(rawValue: speaker.record.kind),
                platform: .linux,
                manufacturer: nil,
                model: nil,
                presence: presence,
                apps: apps.sorted { $0.appID == $1.appID ? $0.endpoint < $1.endpoint : $0.appID < $1.appID },
                isNew: known.isEmpty,
                isVerified: !known.isEmpty,
                joining: nil,
                isLocal: all.contains { $0.isLocal },
                isAvailableByProximity: withApps.contains { known.contains($0) && $0.presence(on: .nearby) != nil }
            )
            let isPassing = filters.allSatisfy { filter in
                switch filter.kind {
                case .status(.available): presence.state == .available
                case .kinds(let kinds): kinds.contains(system.kind)
                default: true
                }
            }
            if isPassing { systems.insert(system) }
        }
        return systems
    }
}
