// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Synchronization

/// Lists the devices that are seen on this network: known ones, paired ones, and strangers' that a person has made visible.
package struct Nearby: Sendable {
    /// How long devices on the network may take to answer.
    private static let patience = Duration.seconds(3)
    /// The visible strangers that are shown.
    private static let maximumStrangers = 64

    package init() {}

    /// A device on this network. What it says of itself is proved by nothing, before it is connected.
    package struct Neighbour: Encodable, Hashable, Sendable {
        package enum Relation: String, Encodable, Sendable {
            /// A device of the account that this one knows.
            case known
            /// A device of another person.
            case paired
            /// Somebody's device, which is visible now.
            case stranger
        }

        package var relation: Relation
        package var name: String
        package var kind: String
        /// Of a known or paired device.
        package var device: String?
        package var endpoint: String?
        /// Of a stranger: what it was made visible for.
        package var mode: String?
        /// Of a stranger: what names it while it is visible.
        package var id: String?
        package var addresses: [String]
        package var interfaces: [String]
        /// Whether it is another process of this machine.
        package var local: Bool

        fileprivate var key: String { "\(relation.rawValue) \(endpoint ?? id ?? "")" }

        fileprivate static func addTitles() -> Table { Table("NAME", "KIND", "WHOSE", "HOW IT IS REACHED") }

        fileprivate func add(to table: inout Table) {
            let who =
                switch relation {
                case .known: "known"
                case .paired: "paired"
                case .stranger:
                    (mode == VisibleDevice.Mode.pair.rawValue ? "stranger, visible to pair" : "stranger, visible to receive")
                        + (local ? ", on this machine" : "")
                }
            let ways = "\(addresses.joined(separator: ", ")) on \(interfaces.joined(separator: ", "))"
            table.add(.init(name: name, .strong), .init(kind), .init(who, relation == .stranger ? .attention : nil), .init(ways))
        }
    }

    package struct Result: AgentResult {
        package var neighbours: [Neighbour]
        /// The visible strangers that are not listed, because there are too many.
        package var omitted: Int?

        package var notes: [String] {
            let why = "no device is seen on this network: known ones need `relay agent`, strangers `relay receive --visible`"
            return (neighbours.isEmpty ? [why] : []) + (omitted.map { ["\($0) more strangers are visible"] } ?? [])
        }

        package func lines(_ style: Style) -> [String] {
            guard !neighbours.isEmpty else { return [] }
            var table = Neighbour.addTitles()
            for neighbour in neighbours { neighbour.add(to: &table) }
            return table.lines(style)
        }
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case added, updated, removed
        }

        package var event: Kind
        package var neighbour: Neighbour

        package func lines(_ style: Style) -> [String] {
            let sign: (String, Style.Emphasis) =
                switch event {
                case .added: ("+", .good)
                case .updated: ("~", .faint)
                case .removed: ("-", .attention)
                }
            var table = Table()
            neighbour.add(to: &table)
            return table.lines(style).filter { !$0.isEmpty }.map { "\(style.show(sign.0, sign.1)) \($0)" }
        }
    }

    /// Lists what is seen once all neighbours had time to answer.
    package func run(_ context: AgentContext) async throws -> Result {
        try await CancellationSignal.cancelling(failingWith: AgentError.init) {
            try await context.withPlatform(try context.anyDevice()) { local in
                let last = Mutex(Result(neighbours: []))
                try await local.whileWaiting {
                    "looking for devices on this network"
                } _: {
                    _ = try await within(Self.patience) { () -> Bool? in
                        try await Self.follow(local) { now in last.withLock { $0 = now } }
                        return nil
                    }
                }
                let result = last.withLock { $0 }
                // Then it is not known whether a device is there.
                guard !result.neighbours.isEmpty || local.platform.hasNearbyNetwork else { throw DevicePairingError.noNetwork }
                return result
            }
        }
    }

    /// Prints what appears, changes and is gone, until SIGINT or SIGTERM.
    package func watch(_ context: AgentContext) async throws {
        let stop = StopSignal()
        try await context.withPlatform(try context.anyDevice()) { local in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await stop.arrived() }
                group.addTask {
                    let shown = Mutex<[Neighbour]>([])
                    try await Self.follow(local) { now in
                        let before = shown.withLock { shown in
                            defer { shown = now.neighbours }
                            return shown
                        }
                        for event in Self.changes(from: before, to: now.neighbours) { try context.console.print(event) }
                    }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
    }

    static func changes(from before: [Neighbour], to now: [Neighbour]) -> [Event] {
        let old = Dictionary(before.map { ($0.key, $0) }) { first, _ in first }
        let gone = Set(old.keys).subtracting(now.map(\.key))
        return before.filter { gone.contains($0.key) }.map { Event(event: .removed, neighbour: $0) }
            + now.compactMap { neighbour in
                guard let earlier = old[neighbour.key] else { return Event(event: .added, neighbour: neighbour) }
                return earlier == neighbour ? nil : Event(event: .updated, neighbour: neighbour)
            }
    }

    private struct Seen: Equatable {
        var known: [ConnectedDevicesAccount: [NearbySighting]] = [:]
        var visible: [VisibleDevice]?
    }

    /// Calls a closure with each change, until the task is cancelled.
    private static func follow(_ local: LocalDevice, _ changed: (Result) async throws -> Void) async throws {
        let seen = CurrentValue(Seen())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for account in local.accounts {
                group.addTask {
                    try await local.platform.withNearbySightings(for: account) { sightings in
                        for await now in sightings { seen.update { $0.known[account] = now } }
                    }
                }
            }
            group.addTask {
                // It ends with an error if the network is not used.
                defer { seen.finish() }
                try await local.platform.withVisibleDevices { devices in
                    for await now in devices { seen.update { $0.visible = now } }
                }
            }
            defer { group.cancelAll() }
            for await now in AsyncValues(seen, { $0.visible == nil && $0.known.isEmpty ? nil : $0 }) {
                try await changed(result(now, await names(local)))
            }
            while try await group.next() != nil {}
        }
    }

    private static func names(_ local: LocalDevice) async -> [EndpointID: EndpointRecord] {
        var all: [EndpointID: EndpointRecord] = [:]
        for account in local.accounts {
            for known in await local.platform.knownEndpoints(for: account) { all[known.record.endpointID] = known.record }
        }
        return all
    }

    private static func result(_ seen: Seen, _ records: [EndpointID: EndpointRecord]) -> Result {
        let known = seen.known.flatMap { account, sightings in
            sightings.compactMap { sighting in
                records[sighting.endpoint].map { Neighbour(sighting, $0, account == .anonymous ? .paired : .known) }
            }
        }.sorted { ($0.relation.rawValue, $0.name, $0.key) < ($1.relation.rawValue, $1.name, $1.key) }
        let strangers = (seen.visible ?? []).map(Neighbour.init)
        return Result(
            neighbours: known + strangers.prefix(maximumStrangers),
            omitted: strangers.count > maximumStrangers ? strangers.count - maximumStrangers : nil
        )
    }
}

extension Nearby.Neighbour {
    fileprivate init(_ sighting: NearbySighting, _ record: EndpointRecord, _ relation: Relation) {
        self.relation = relation
        name = DisplayText.sanitized(record.name)
        kind = DisplayText.sanitized(record.kind)
        device = "\(RemoteSystem.ID(record.systemID))"
        endpoint = "\(record.endpointID)"
        addresses = sighting.addresses.map { "\($0)" }
        interfaces = sighting.interfaces.map(DisplayText.sanitized)
        local = false
    }

    fileprivate init(_ device: VisibleDevice) {
        relation = .stranger
        // A name that is too long for a device is a claim, too.
        name = DisplayText.sanitized(String(device.name.prefix(Limits()[.displayNameCharacters])))
        kind = DisplayText.sanitized(String(device.kind.rawValue.prefix(Limits()[.displayNameCharacters])))
        mode = device.mode.rawValue
        id = DisplayText.sanitized(device.id)
        addresses = device.addresses.map { "\($0)" }.uniqued
        interfaces = device.interfaces.map(DisplayText.sanitized).uniqued
        local = device.isOnThisMachine
    }
}
