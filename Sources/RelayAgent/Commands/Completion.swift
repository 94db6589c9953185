// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Shell completion of devices.
package enum Completion {
    /// The known devices, without contacting the relay: by name, or by the beginning of the id if the name could mean
    /// something to a shell. Empty on any error.
    package static func devices(_ context: AgentContext) async -> [String] {
        await known(context) { isPlain($0.name) ? $0.name : String("\($0.id)".prefix(8)) }
    }

    /// The ids of the known devices, for arguments that accept no name.
    package static func ids(_ context: AgentContext) async -> [String] { await known(context) { "\($0.id)" } }

    private static func known(_ context: AgentContext, _ text: ((id: RemoteSystem.ID, name: String)) -> String) async -> [String] {
        let texts = try? await context.withAccount(connects: false) { await $0.platform.knownDevices(for: $0.account).map(text) }
        return Set(texts ?? []).sorted()
    }

    /// The names of the home's profiles.
    package static func profiles(_ context: AgentContext) -> [String] { (try? context.accounts.names()) ?? [] }

    /// The ids of the new endpoints. Only the relay knows them, so the wait for it is short.
    package static func newIDs(_ context: AgentContext) async -> [String] {
        let ids = try? await context.withAccount { local in
            try await local.waitForDirectory(.seconds(2))
            return local.platform.endpoints(for: local.account).filter { !$0.isVerified && !$0.isLocal }.map { "\($0.id)" }
        }
        return Set(ids ?? []).sorted()
    }

    /// Whether a name is safe to offer. Another device chose it, and some shells expand completions.
    static func isPlain(_ name: String) -> Bool {
        guard DisplayText.isPlain(name), let first = name.unicodeScalars.first, first != "-", first != " " else { return false }
        return name.unicodeScalars.allSatisfy { scalar in
            guard scalar.isASCII else { return scalar.properties.isAlphabetic || scalar.properties.numericType != nil }
            return scalar.properties.isAlphabetic || scalar.properties.numericType != nil || " ._-".unicodeScalars.contains(scalar)
        }
    }
}
