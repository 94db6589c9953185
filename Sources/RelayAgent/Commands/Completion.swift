// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// What a shell offers for a device, while somebody types.
package enum Completion {
    /// The devices that are known here, without asking anybody: by name, or by the beginning of the id where the name is none that a shell
    /// may have. Nothing where something is in the way.
    package static func devices(_ context: AgentContext) async -> [String] {
        let names = try? await context.withAccount(connects: false) { session in
            await session.platform.knownDevices(for: session.account)
                .map { isPlain($0.name) ? $0.name : String("\($0.id)".prefix(8)) }
        }
        return Set(names ?? []).sorted()
    }

    /// The ids of the devices that are known here, for what takes no name.
    package static func ids(_ context: AgentContext) async -> [String] {
        let ids = try? await context.withAccount(connects: false) { session in
            await session.platform.knownDevices(for: session.account).map { "\($0.id)" }
        }
        return Set(ids ?? []).sorted()
    }

    /// The ids of the endpoints that are new. Only the relay knows them; it is waited for no longer than a person at a shell would.
    package static func newIDs(_ context: AgentContext) async -> [String] {
        let ids = try? await context.withAccount { session in
            try await session.waitForDirectory(.seconds(2))
            return session.platform.endpoints(for: session.account).filter { !$0.isVerified && !$0.isLocal }.map { "\($0.id)" }
        }
        return Set(ids ?? []).sorted()
    }

    /// Another device chose the name, and some shells expand what they are offered: nothing that could mean something to one.
    static func isPlain(_ name: String) -> Bool {
        guard DisplayText.isPlain(name), let first = name.unicodeScalars.first, first != "-", first != " " else { return false }
        return name.unicodeScalars.allSatisfy { scalar in
            guard scalar.isASCII else { return scalar.properties.isAlphabetic || scalar.properties.numericType != nil }
            return scalar.properties.isAlphabetic || scalar.properties.numericType != nil || " ._-".unicodeScalars.contains(scalar)
        }
    }
}
