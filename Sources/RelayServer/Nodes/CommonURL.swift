// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOHTTP1
package import RelayProtocol

/// Asks over the network which nodes are ready at the URLs that all nodes have in common, as an endpoint would find them.
package struct CommonURL: Sendable {
    /// The field of an answer to `/readyz` that names the node.
    package static let field = "relay-node"
    /// More URLs are not asked.
    private static let maximumURLs = 4

    private let addresses: [IssuerURL]

    /// - Parameters:
    ///   - urls: The relay's URLs. Those without TLS are asked on loopback only.
    ///   - own: Where this node alone is reached, which says nothing of others.
    package init(_ urls: [Origin], own: Origin?) {
        addresses = urls.filter { $0 != own }.prefix(Self.maximumURLs).compactMap { IssuerURL("\($0)/readyz") }
    }

    /// Returns after 10 s at the latest. Failures and unexpected answers name no node.
    package func readyNodes() async -> Set<NodeID> {
        await withTaskGroup(of: NodeID?.self) { group in
            for address in addresses { group.addTask { await Self.readyNode(at: address) } }
            return await group.reduce(into: []) { nodes, node in if let node { nodes.insert(node) } }
        }
    }

    private static func readyNode(at address: IssuerURL) async -> NodeID? {
        guard let answer = try? await IssuerHTTPClient().send(to: address), answer.status == 200 else { return nil }
        let names = answer.headers[field]
        guard names.count == 1, let name = names.first else { return nil }
        return NodeID(name)
    }
}
