// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import Logging
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@testable import RelayPostgres
@testable import RelayServer

/// Cores of several nodes on one database.
@Suite(.enabled(if: PostgresServer.isPossible)) struct NodeTests {
    private static let relay = RelayID(P256SigningKey().publicKey)

    /// A node with its core.
    private struct Node: Sendable {
        let store: PostgresStore
        let core: RelayCore

        init(_ name: String, on database: [(name: String, value: String)]) async throws {
            store = try PostgresStore.opened(database, url: Origin("https://\(name).example"))
            core = RelayCore(
                store: store,
                leases: store,
                relay: NodeTests.relay,
                limits: Limits(),
                now: { Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000)) },
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            )
            try await core.start()
        }

        func connect(_ hello: ProvedHello, _ peer: TestPeer = TestPeer()) async -> Result<AcceptedChannel, RelayMessage.Rejected> {
            await withCheckedContinuation { continuation in
                core.connect(hello, peer: peer) { continuation.resume(returning: $0) }
            }
        }

        /// Connects as soon as the node lets the endpoint in.
        func open(_ device: TestDevice, _ account: String, _ peer: TestPeer = TestPeer()) async throws -> ChannelID {
            while true {
                switch await connect(try device.hello(account), peer) {
                case .success(let channel): return channel.id
                case .failure(let rejected):
                    guard rejected.retry else { throw rejected }
                    try await Task.sleep(for: .milliseconds(50))
                }
            }
        }

        func close() async {
            await core.stop()
            store.close()
        }
    }

    private func nodes(_ names: String...) async throws -> (nodes: [Node], database: [(name: String, value: String)]) {
        let database = try await PostgresServer.shared.makeDatabase()
        var nodes: [Node] = []
        for name in names { nodes.append(try await Node(name, on: database)) }
        return (nodes, database)
    }

    private func setDead(_ node: Node, on database: [(name: String, value: String)]) throws {
        let connection = try PostgresConnection(database)
        try connection.begin()
        _ = try connection.run("UPDATE node SET dead = 1 WHERE id = ?", [.text("\(node.store.nodeID)")], mayWrite: true)
        try connection.commit()
    }

    /// Waits for something that a peer is told.
    private func wait<Value>(_ peer: TestPeer, for find: (RelayMessage) -> Value?) async throws -> Value {
        while true {
            for message in peer.take() { if let found = find(message) { return found } }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func account(of device: TestDevice, at node: Node) async throws -> String {
        guard case .failure(let rejected) = await node.connect(try device.hello("?")) else { throw TestError("it was let in") }
        return try #require(rejected.account)
    }

    @Test func endpointsAreSentToTheNodeOfTheirAccount() async throws {
        let (nodes, _) = try await nodes("one", "two")
        let device = TestDevice(subject: "me")
        let account = try await account(of: device, at: nodes[0])
        _ = try await nodes[0].open(device, account)
        guard case .failure(let rejected) = await nodes[1].connect(try device.hello(account)) else { throw TestError("it was let in") }
        #expect(rejected.code == .moved && rejected.url == "https://one.example" && rejected.retry)
        var old = try device.hello(account)
        old.mayMove = false
        guard case .failure(let refused) = await nodes[1].connect(old) else { throw TestError("it was let in") }
        #expect(refused.code == .unavailable && refused.url == nil)
        for node in nodes { await node.close() }
    }

    /// The node that serves the account carries it out, and the other one shows it.
    @Test func quotasAreSetAtAnyNode() async throws {
        let (nodes, _) = try await nodes("one", "two")
        let device = TestDevice(subject: "me")
        let account = try await account(of: device, at: nodes[0])
        let peer = TestPeer()
        _ = try await nodes[0].open(device, account, peer)
        let ticks = Task {
            while !Task.isCancelled {
                nodes[0].core.handleDeadlines()
                try? await Task.sleep(for: .milliseconds(100))
            }
        }
        try await nodes[1].core.change(QuotaChange(["endpointsPerAccount": 1]), of: AccountID(account))
        ticks.cancel()
        for node in nodes {
            let row = try #require(try await node.core.accounts().first { $0.id == AccountID(account) })
            #expect(row.quotas.values == [.endpointsPerAccount: 1])
            #expect(try await node.core.quotaUse(of: AccountID(account)).values[.endpointsPerAccount] == 1)
        }
        // It holds at the node of the account, which had read the former quotas, and at the next one.
        let other = TestDevice(subject: "me")
        guard case .failure(let rejected) = await nodes[0].connect(try other.hello(account)) else { throw TestError("it was let in") }
        #expect(rejected.limit == ExceededLimit(LimitExceeded(limit: .endpointsPerAccount, allowed: 1, requested: 2)))
        await nodes[0].close()
        let refused = await #expect(throws: RelayMessage.Rejected.self) { try await nodes[1].open(other, account) }
        #expect(refused?.limit?.name == "endpointsPerAccount")
        try await nodes[1].core.change(QuotaChange(reset: ["endpointsPerAccount"]), of: AccountID(account))
        _ = try await nodes[1].open(other, account)
        await nodes[1].close()
    }

    /// A node that is found dead closes its channels. What it had accepted is at the next one.
    @Test func accountGoesToAnotherNode() async throws {
        let (nodes, database) = try await nodes("one", "two")
        let (phone, pc) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let account = try await account(of: phone, at: nodes[0])
        let peer = TestPeer()
        let channel = try await nodes[0].open(phone, account, peer)
        _ = try await nodes[0].open(pc, account)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        var (ids, random) = (CommandIDGenerator(), SystemRandomNumberGenerator())
        let header = CommandHeader(
            id: ids.next(now: UInt64(now), using: &random),
            account: account,
            relay: Self.relay,
            sender: phone.id,
            target: pc.id,
            senderApp: nil,
            targetApp: "player",
            keyID: pc.agreementKey.publicKey.keyID,
            kind: .launch,
            number: 1,
            created: now,
            expires: now + 300_000
        )
        let command = try SealedCommand(
            .launch(.init(uri: LaunchURI("https://films.example"))),
            header: header,
            target: pc.agreementKey.publicKey,
            key: phone.identityKey
        )
        _ = nodes[0].core.receive(.commandSend(.init(ref: .first, command: Blob(command.encoded))), on: channel)
        try await wait(peer) { if case .ok = $0 { () } else { nil } }
        try setDead(nodes[0], on: database)
        // The next transaction finds it out.
        _ = nodes[0].core.receive(.watch(.init(ref: .first)), on: channel)
        try await wait(peer) { if case .restarting = $0 { () } else { nil } }
        #expect(peer.closeCode == 1012)
        let moved = TestPeer()
        _ = try await nodes[1].open(pc, account, moved)
        let offered = try await wait(moved) { if case .command(let offer) = $0 { offer.command.bytes } else { nil } }
        #expect(offered == command.encoded)
        for node in nodes { await node.close() }
    }

    /// What the operator asks at one node is done by the account's node, once.
    @Test func requestsReachTheNodeOfTheAccount() async throws {
        let (nodes, _) = try await nodes("one", "two")
        let (phone, pc) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let account = try await account(of: phone, at: nodes[0])
        _ = try await nodes[0].open(phone, account)
        let peer = TestPeer()
        _ = try await nodes[0].open(pc, account, peer)
        let ticks = Task {
            while !Task.isCancelled {
                nodes[0].core.handleDeadlines()
                try? await Task.sleep(for: .milliseconds(100))
            }
        }
        try await nodes[1].core.rename(AccountID(account), to: "Anna")
        #expect(try await nodes[1].core.accounts().map(\.name) == ["Anna"])
        await #expect(throws: AccountNameTaken.self) {
            let other = try await nodes[1].core.addAccount(of: Identity(issuer: "https://issuer.example", subject: "eve"), name: "Eve")
            try await nodes[1].core.rename(other, to: "Anna")
        }
        let revoked = try #require(try await nodes[1].core.revoke(pc.id))
        #expect(revoked.revoked.map(\.id) == [pc.id])
        try await wait(peer) { if case .authInvalidated = $0 { () } else { nil } }
        #expect(peer.closeCode != nil)
        let left = try await nodes[1].store.transactGlobally { try $0.openRequests(in: nodes[1].store.scope, limit: 9) }
        #expect(left.isEmpty)
        ticks.cancel()
        for node in nodes { await node.close() }
    }

    /// A request that nobody serves is done by a node that takes the account.
    @Test func requestOfAnAccountWithoutANodeIsDoneAtOnce() async throws {
        let (nodes, _) = try await nodes("one", "two")
        let id = try await nodes[0].core.addAccount(of: Identity(issuer: "https://issuer.example", subject: "me"), name: "Anna")
        await nodes[0].close()
        try await nodes[1].core.rename(id, to: "Bea")
        #expect(try await nodes[1].core.accounts().map(\.name) == ["Bea"])
        await nodes[1].close()
    }
}
#endif
