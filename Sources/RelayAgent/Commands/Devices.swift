// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Lists the devices of the account.
package struct Devices: RoutedCommand {
    var showsAll: Bool

    /// - Parameter showsAll: Includes this device and endpoints that publish no app.
    package init(showsAll: Bool) { self.showsAll = showsAll }

    package struct Result: AgentResult, Codable {
        package var devices: [DeviceResult]
        /// Present with `--all` only.
        package var endpoints: [EndpointResult]?
        /// Whether the relay was asked. Otherwise the list is the last known state.
        package var current: Bool
        /// Why the relay could not be asked.
        package var problem: String?
        var now = Date.now

        enum CodingKeys: CodingKey { case devices, endpoints, current, problem }

        package var notes: [String] {
            guard devices.isEmpty, current else { return [] }
            return ["no other device publishes an app; run `relay agent` or `relay host` on one, or see `relay devices --all`"]
        }

        package func lines(_ style: Style) -> [String] {
            var table = DeviceResult.addTitles()
            for device in devices { device.add(to: &table, now: now) }
            let first = devices.isEmpty ? [] : table.lines(style)
            guard let endpoints, !endpoints.isEmpty else { return first }
            var second = Table("ENDPOINT", "DEVICE", "STATUS")
            for endpoint in endpoints {
                second.add(
                    .init(name: String(endpoint.id.prefix(8))),
                    .init(
                        name: endpoint.name,
                        note: (endpoint.local ? " (this one)" : "") + DeviceResult.mark(new: endpoint.new, unverified: endpoint.unverified),
                        endpoint.new ? .attention : nil
                    ),
                    .init(PresenceText.text(endpoint.presence, now: now))
                )
            }
            // The facts of an endpoint are below its row, because together they are wider than a terminal.
            let rows = second.lines(style)
            let more = endpoints.map { endpoint in
                let apps = endpoint.apps.isEmpty ? [] : ["apps: \(endpoint.apps.joined(separator: ", "))"]
                let joined = endpoint.joined == nil ? [] : ["joined \(endpoint.joiningText(now: now))"]
                return (apps + joined).map { style.show("          \($0)", endpoint.inviterRevoked ?? false ? .attention : .faint) }
            }
            return first + (first.isEmpty ? [] : [""]) + rows.prefix(1) + zip(rows.dropFirst(), more).flatMap { [$0] + $1 }
        }
    }

    package func request() -> APIRequest { APIRequest(.get, "devices", query: showsAll ? [("all", "true")] : []) }

    package func run(on local: LocalDevice) async throws -> Result {
        try await local.waitForDevices()
        let isCurrent = local.platform.isEnumerated(local.account)
        let state = await local.connectionState()
        // Neighbours need a moment to be found.
        for account in local.accounts where !isCurrent || account == .anonymous { await local.platform.searchNearby(for: account) }
        return Result(
            devices: await local.devices(showsAll: showsAll).map(DeviceResult.init),
            endpoints: showsAll ? local.endpoints.map(EndpointResult.init) : nil,
            current: isCurrent,
            problem: isCurrent ? nil : state?.problem.map { AgentError($0).message } ?? "it has not sent the list of devices yet",
            now: .now
        )
    }

    package func runHere(_ context: AgentContext) async throws -> Result {
        try await context.withAccount {
            try await run(on: $0)
        } orStored: { contents, failure in
            let directory = contents.directory
            return Result(
                devices: directory.systems(matching: RemoteSystemFilter.everybody + (showsAll ? [.localVisibility(.showAll)] : [])).map(
                    DeviceResult.init
                ),
                endpoints: showsAll ? directory.sortedEndpoints.map(EndpointResult.init) : nil,
                current: false,
                problem: failure.message,
                now: .now
            )
        }
    }
}
