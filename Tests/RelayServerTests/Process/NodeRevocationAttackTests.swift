// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// What is revoked at one node ends at all.
@Suite(.timeLimit(.minutes(5)), .enabled(if: PostgresServer.isPossible)) struct NodeRevocationAttackTests {
    private func nodes(_ arguments: [String] = []) async throws -> [RelaydProcess] {
        let (store, places) = (try await PostgresServer.shared.makeURI(), try RelayNodes(2))
        var nodes: [RelaydProcess] = []
        for number in 0..<2 {
            let node = try await RelaydProcess(
                port: places.ports[number],
                arguments: places.arguments(number, store: store) + ["--limit", "publishesPerSecond=10000"] + arguments
            )
            if let first = nodes.first { try RelayNodes.copyKeys(from: first, to: node.directory) }
            _ = try await node.start()
            nodes.append(node)
        }
        _ = try await nodes[0].run("account", "add", "Anna")
        return nodes
    }

    /// Says hello until the relay answers something else than that the account is elsewhere, or not to be served now.
    private func rejection(_ endpoint: WireEndpoint) async throws -> ControlErrorCode? {
        while true {
            let (socket, answer) = try await endpoint.greet(role: .host)
            await socket.socket.close()
            guard case .rejected(let rejected) = answer, rejected.code != .wrongAccount else { return nil }
            if ![.moved, .unavailable].contains(rejected.code) { return rejected.code }
            if rejected.code == .moved { return nil }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// A node has seen the token, and so knows it as good.
    @Test func revokedTokenIsRefusedByANodeThatHasAcceptedIt() async throws {
        let nodes = try await nodes()
        let phone = WireEndpoint("Phone", at: nodes[0])
        try await phone.join(try await nodes[0].run("invite", "Anna"))
        try await phone.connect()
        #expect(try await TokenCommandTests.revoke(phone.token, at: nodes[1]) != nil)
        // Its channel is at the other node than the command.
        #expect(await phone.closeCode() == 1008)
        #expect(try await rejection(phone) == .tokenRevoked)
        for node in nodes { #expect(try await node.stop() == 0) }
    }

    @Test func endpointThatIsRevokedAtAnotherNodeIsPutOut() async throws {
        let nodes = try await nodes()
        let (phone, pc) = (WireEndpoint("Phone", at: nodes[0]), WireEndpoint("PC", at: nodes[0]))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await nodes[0].run("invite", "Anna"))
            try await endpoint.connect()
        }
        _ = try await nodes[1].run("endpoint", "revoke", "--yes", "\(pc.id)")
        #expect(await pc.closeCode() == 1008)
        #expect(try await [.endpointRevoked, .tokenRevoked].contains(rejection(pc)))
        #expect(try await rejection(phone) == nil)
        for node in nodes { #expect(try await node.stop() == 0) }
    }

    /// The account stays out at every node.
    @Test func disabledAccountIsDisabledEverywhere() async throws {
        let nodes = try await nodes()
        let phone = WireEndpoint("Phone", at: nodes[0])
        try await phone.join(try await nodes[0].run("invite", "Anna"))
        try await phone.connect()
        _ = try await nodes[1].run("account", "disable", "Anna")
        #expect(await phone.closeCode() == 1008)
        #expect(try await rejection(phone) == .accountDisabled)
        _ = try await nodes[1].run("account", "enable", "Anna")
        #expect(try await rejection(phone) == nil)
        for node in nodes { #expect(try await node.stop() == 0) }
    }
}
