// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An endpoint that a user's text may mean.
protocol NamedEndpoint {
    /// The whole id of the endpoint.
    var id: String { get }
    /// The whole id of its device.
    var device: String { get }
    /// The name that the endpoint gives its device.
    var name: String { get }
    /// What tells it apart from others, on one line.
    var summary: String { get }
}

extension EndpointResult: NamedEndpoint {}

/// Finds endpoints by a user's text, for operations that cannot be undone.
enum EndpointResolver {
    /// A shorter prefix of an id is more likely a mistake.
    private static let minimumPrefixCharacters = 4
    /// 80 bits: an attacker cannot find a second key with the same prefix. Fewer bits are only a label, and a device chooses
    /// its own name.
    private static let minimumProofCharacters = 16

    /// The endpoints of a device, by its id or a prefix of it, or one endpoint by its own id.
    /// - Parameter isShown: Whether the user sees the result and confirms it. In that case a name is enough.
    static func endpoints<Endpoint: NamedEndpoint>(_ text: String, in all: [Endpoint], isShown: Bool) throws -> [Endpoint] {
        guard isShown || text.utf8.count >= minimumProofCharacters && text.utf8.allSatisfy(isIDByte) else {
            throw AgentError(
                "idRequired",
                "without a terminal to ask at, give an id or at least the first \(minimumProofCharacters) characters of it: "
                    + "see `relay devices --all --json`, and compare with `relay whoami` there",
                .usage
            )
        }
        let name = Array(text.lowercased().utf8)
        let devices = Set(
            all.filter { isShown && $0.name.lowercased().utf8.elementsEqual(name) || matches($0.device, by: name) }.map(\.device)
        )
        let others = all.filter { !devices.contains($0.device) && matches($0.id, by: name) }
        switch (devices.count, others.count) {
        case (1, 0): return all.filter { devices.contains($0.device) }
        case (0, 1): return others
        case (0, 0):
            throw AgentError("notFound", "the account has no device or endpoint \(text): see `relay devices --all`", .notFound)
        default:
            let candidates = all.filter { devices.contains($0.device) } + others
            throw AgentError.ambiguous("'\(text)' can mean several", candidates.map(\.summary))
        }
    }

    private static func isIDByte(_ byte: UInt8) -> Bool {
        let lower = byte | 0x20
        return (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(lower) || (UInt8(ascii: "2")...UInt8(ascii: "7")).contains(byte)
    }

    private static func matches(_ id: String, by text: [UInt8]) -> Bool {
        text.count >= minimumPrefixCharacters && id.utf8.starts(with: text)
    }
}
