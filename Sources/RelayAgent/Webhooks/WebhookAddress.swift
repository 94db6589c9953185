// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import RelayProtocol
import RelayResolver

/// Where the messages of a webhook go. The agent is inside of the person's network, so an address must not lead a token's holder there.
struct WebhookAddress: Sendable {
    let target: DialTarget
    /// Whether it may also be plain http, on this machine or in a private network.
    let mayBePrivate: Bool

    /// Finds the addresses of a host; `nil` if they cannot be looked up.
    typealias Resolver = @Sendable (_ host: String, _ port: Int) async -> [SocketAddress]?

    static let longest = 2_048
    /// How many addresses of a name are tried.
    static let maximumAddresses = 3

    /// - Throws: `AgentError`: `urlInvalid`, `addressRefused`.
    init(_ url: String, for principal: Principal) throws {
        let mayBePrivate: Bool
        switch principal {
        case .owner, .console: mayBePrivate = true
        case .token, .stranger: mayBePrivate = false
        }
        try self.init(url, mayBePrivate: mayBePrivate)
    }

    init(_ url: String, mayBePrivate: Bool) throws {
        guard url.utf8.count <= Self.longest, let target = DialTarget(url) else {
            throw AgentError(
                "urlInvalid",
                "a webhook has an http or https URL of at most \(Self.longest) bytes, without user name and password",
                .usage
            )
        }
        (self.target, self.mayBePrivate) = (target, mayBePrivate)
        guard target.isEncrypted || mayBePrivate else { throw Self.refusal("the webhook of a token has an https URL") }
    }

    /// Looks up the host. A message goes to one of the addresses that are returned, which are all checked, so that a name that leads
    /// elsewhere at its next look-up leads nowhere.
    /// - Returns: No address if the host has none now.
    /// - Throws: `AgentError`: `addressRefused`.
    func addresses(_ resolver: Resolver = { await HostResolver.shared.addresses(of: $0, port: $1) }) async throws -> [SocketAddress] {
        let addresses = await resolver(target.host, target.port) ?? []
        guard addresses.allSatisfy({ !(IPAddress($0).map(Self.isForbidden) ?? true) }) else {
            throw Self.refusal("no webhook leads to a link-local address, or to the metadata of a cloud")
        }
        guard mayBePrivate || addresses.allSatisfy({ IPAddress($0)?.isPublic ?? false }) else {
            throw Self.refusal("the webhook of a token leads to a public address")
        }
        return Array(addresses.prefix(Self.maximumAddresses))
    }

    private static func refusal(_ message: String) -> AgentError { AgentError("addressRefused", message, .usage) }

    /// Link-local addresses, and those at which clouds give their machines credentials.
    private static let forbidden = [
        "169.254.0.0/16", "fe80::/10", "fec0::/10", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    ].compactMap(IPNetwork.init(parsing:))

    static func isForbidden(_ address: IPAddress) -> Bool {
        forbidden.contains { $0.contains(address) } || address.contained.map(isForbidden) ?? false
    }
}
