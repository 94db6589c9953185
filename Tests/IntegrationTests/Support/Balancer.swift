// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayTesting

/// nginx before the nodes of a relay, at their common URL.
final class Balancer {
    private let port: Int
    private let nginx: Nginx

    init(port: Int, to nodes: [RelaydProcess]) async throws {
        self.port = port
        nginx = try Nginx(port: port, upstream: Self.servers(nodes), location: "proxy_next_upstream error http_503;")
        try await answers(as: nil)
    }

    /// Leads to other nodes from now on. Open connections stay.
    func lead(to nodes: [RelaydProcess]) async throws {
        try nginx.lead(to: Self.servers(nodes))
        for node in nodes { try await answers(as: node) }
    }

    private static func servers(_ nodes: [RelaydProcess]) -> String {
        nodes.map { "server \($0.host) max_fails=0;" }.joined(separator: " ")
    }

    private func node(at origin: String) async -> String? {
        guard let address = try? RelayAddress(url(origin)) else { return nil }
        let answer = try? await HTTPRequestClient().send(HTTPRequest(.GET, "/readyz"), to: address, trust: RelayTrust(relay: nil))
        return answer?.status == 200 ? answer?.headers.first(name: "relay-node") : nil
    }

    /// Waits until a node is reached through nginx; `nil` for any.
    private func answers(as node: RelaydProcess?) async throws {
        try await nginx.wait {
            guard let found = await self.node(at: "http://127.0.0.1:\(port)") else { return false }
            guard let node else { return true }
            return await self.node(at: node.origin) == found
        }
    }
}
