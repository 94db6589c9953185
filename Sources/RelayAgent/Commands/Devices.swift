// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Lists the devices of the account.
package struct Devices: Sendable {
    var showsAll: Bool

    /// - Parameter showsAll: Includes this device and endpoints that publish no app.
    package init(showsAll: Bool) { self.showsAll = showsAll }

    package struct Result: AgentResult {
        package var devices: [DeviceResult]
        /// Present with `--all` only.
        package var endpoints: [EndpointResult]?
        var now: Date

        enum CodingKeys: CodingKey { case devices, endpoints }

        package func lines(_ style: Style) -> [String] {
            var table = DeviceResult.addTitles()
            for device in devices { device.add(to: &table, now: now) }
            let first = devices.isEmpty ? [] : table.lines(style)
            guard let endpoints, !endpoints.isEmpty else { return first }
            var second = Table("ENDPOINT", "DEVICE", "STATUS", "APPS", "JOINED")
            for endpoint in endpoints {
                second.add(
                    .init(endpoint.id),
                    .init(
                        endpoint.name + (endpoint.local ? " (this one)" : "")
                            + DeviceResult.mark(new: endpoint.new, unverified: endpoint.unverified),
                        endpoint.new ? .attention : nil
                    ),
                    .init(DeviceResult.status(endpoint.status, endpoint.reason, endpoint.since, now)),
                    .init(endpoint.apps.isEmpty ? "-" : endpoint.apps.joined(separator: ", ")),
                    .init(endpoint.joiningText(now: now), endpoint.inviterRevoked ?? false ? .attention : nil)
                )
            }
            return first + (first.isEmpty ? [] : [""]) + second.lines(style)
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { local in
            try await local.waitForDirectory()
            let systems = await local.devices(showsAll: showsAll)
            if systems.isEmpty, !context.console.isJSON {
                context.console.note(
                    "no other device publishes an app; run `relay agent` or `relay host` on one, or see `relay devices --all`"
                )
            }
            return Result(
                devices: systems.map(DeviceResult.init),
                endpoints: showsAll ? local.platform.endpoints(for: local.account).map(EndpointResult.init) : nil,
                now: .now
            )
        }
    }
}
