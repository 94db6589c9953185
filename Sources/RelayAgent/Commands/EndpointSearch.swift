// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Finds endpoints by what a person typed.
enum EndpointSearch {
    /// A shorter beginning of an id is rather a mistake.
    private static let minimumPrefixCharacters = 4

    /// An endpoint by its id or the beginning of it.
    static func endpoint(_ text: String, in all: [DeviceDirectory.Endpoint]) throws -> DeviceDirectory.Endpoint {
        let found = all.filter { isMeant($0.id, by: text) }
        guard let endpoint = found.first else {
            throw AgentError("notFound", "the account has no endpoint \(text): see `relay devices --all`", .notFound)
        }
        guard found.count == 1 else { throw AgentError.ambiguous("several endpoints begin so", found.map { "\($0.id)" }) }
        return endpoint
    }

    /// The endpoints of a device, by its name, id or the beginning of that; or one endpoint.
    static func endpoints(_ text: String, in all: [DeviceDirectory.Endpoint]) throws -> [DeviceDirectory.Endpoint] {
        let name = text.lowercased()
        let devices = Set(all.filter { $0.record.name.lowercased() == name || isMeant($0.systemID, by: text) }.map(\.systemID))
        let others = all.filter { !devices.contains($0.systemID) && isMeant($0.id, by: text) }
        switch (devices.count, others.count) {
        case (1, 0): return all.filter { devices.contains($0.systemID) }
        case (0, 1): return others
        case (0, 0):
            throw AgentError("notFound", "the account has no device or endpoint \(text): see `relay devices --all`", .notFound)
        default:
            let candidates = all.filter { devices.contains($0.systemID) } + others
            throw AgentError.ambiguous("several are meant by \(text)", candidates.map { EndpointResult($0).description })
        }
    }

    private static func isMeant(_ id: some TextIdentifier, by text: String) -> Bool {
        text.utf8.count >= minimumPrefixCharacters && id.description.hasPrefix(text.lowercased())
    }
}
