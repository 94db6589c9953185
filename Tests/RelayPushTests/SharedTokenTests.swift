// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Crypto
import Foundation
import RelayPostgres
import RelayProtocol
import RelayServer
import RelayTesting
import Synchronization
import Testing

@testable import RelayComposition
@testable import RelayPush

/// Nodes that send pushes with one credential of Apple's, which takes no two tokens of one key within 20 minutes.
@Suite(.enabled(if: PostgresServer.isPossible), .timeLimit(.minutes(5))) struct SharedTokenTests {
    private let time = TestTime()
    private let key = RelayKey()

    private struct Node: Sendable {
        let store: PostgresStore
        let token: StoreToken
        let channel: any PushChannel
        let time: TestTime

        func send(_ number: Int = 1) async -> PushOutcome {
            let expiry = Milliseconds(clamping: time.now.count + 60_000)
            return await channel.send(.test(number, expiry: expiry), to: .test(apns: ScriptedAPNs.token(number)))
        }
    }

    private func withNodes(
        on server: PostgresServer,
        _ body: (ScriptedAPNs, [Node], _ database: String) async throws -> Void
    ) async throws {
        let apns = try await ScriptedAPNs(time)
        let database = try await server.makeDatabase()
        let stores = try (0..<2).map { _ in try PostgresStore(database) { [time] in time.now } }
        let stored = StoredCredential.apns(
            team: ScriptedAPNs.team,
            keyID: ScriptedAPNs.keyID,
            key: Secret(apns.key.pemRepresentation),
            topic: ScriptedAPNs.topic
        )
        let app = try await AppRegistry(store: stores[0], key: key) { [time] in time.now }.add(stored, to: AppIdentity.defaultID)
        let id = try #require(app.credentials.first?.id)
        let nodes = try stores.map { store in
            let token = StoreToken(credential: id, store: store, key: key)
            let channel = try PushChannels.test(apns.http, time).channel(for: .test(apns: apns), sharing: token)
            return Node(store: store, token: token, channel: channel, time: time)
        }
        let result: Result<Void, any Error>
        do { result = .success(try await body(apns, nodes, database[2].value)) } catch { result = .failure(error) }
        for node in nodes {
            await node.channel.shutdown()
            node.store.close()
        }
        await apns.stop()
        try result.get()
    }

    /// Sends a push by each node at once.
    private func sendByAll(_ nodes: [Node]) async -> [PushOutcome] {
        await withTaskGroup(of: PushOutcome.self) { group in
            for (number, node) in nodes.enumerated() { group.addTask { await node.send(number) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test func nodesUseOneTokenAndRenewItOnce() async throws {
        try await withNodes(on: PostgresServer.shared) { apns, nodes, _ in
            func isAccepted(_ outcome: PushOutcome) -> Bool { if case .accepted = outcome { true } else { false } }
            #expect(await sendByAll(nodes).allSatisfy(isAccepted))
            #expect(apns.now.tokens.count == 1)
            // It is too old.
            time.advance(51 * 60_000)
            #expect(await sendByAll(nodes).allSatisfy(isAccepted))
            #expect(apns.now.tokens.count == 2)
            // It is rejected, for both.
            time.advance(25 * 60_000)
            for number in nodes.indices { apns.script(number, ScriptedAPNs.problem(403, "ExpiredProviderToken")) }
            #expect(
                await sendByAll(nodes) == Array(repeating: .credentialRejected(reason: "ExpiredProviderToken"), count: 2)
            )
            #expect(await sendByAll(nodes).allSatisfy(isAccepted))
            #expect(apns.now.tokens.count == 3)
        }
    }

    @Test func tokenIsSealed() async throws {
        let server = try await PostgresServer.shared
        try await withNodes(on: server) { apns, nodes, database in
            _ = await nodes[0].send()
            let text = try #require(apns.now.tokens.first)
            #expect(try await nodes[1].token.stored().token?.text.exposed == text)
            let bytes = try await server.query("SELECT encode(sealed, 'escape') FROM push_token", in: database)
            #expect(!bytes.isEmpty && !bytes.contains(text.prefix(20)))
            // Another key does not open it, and neither does the same one in another row.
            let other = StoreToken(credential: nodes[0].token.credential, store: nodes[0].store, key: RelayKey())
            #expect(try await other.stored() == StoredToken(version: 1))
            let copy = "INSERT INTO push_credentials SELECT 'other', identity, type, label, sealed, created FROM push_credentials"
            try await server.query(copy, in: database)
            try await server.query("UPDATE push_token SET credential = 'other'", in: database)
            #expect(try await StoreToken(credential: "other", store: nodes[0].store, key: key).stored().token == nil)
        }
    }

    /// The clock of a node was wrong when it made the token.
    @Test func tokenOfALaterTimeIsReplaced() async throws {
        try await withNodes(on: PostgresServer.shared) { apns, nodes, _ in
            let made = Milliseconds(clamping: time.now.count + 3_600_000)
            let renewal = Milliseconds(clamping: made.count + 3_000_000)
            _ = try await nodes[0].token.replace(0, by: ProviderToken(text: Secret("later"), made: made, renewal: renewal))
            for node in nodes { #expect(await node.send() == .accepted(id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E")) }
            #expect(apns.now.tokens.count == 1)
        }
    }

    /// Also a relay with one node gets its own clock set.
    @Test func rejectedTokenOfALaterTimeIsDropped() async throws {
        let time = time
        let made = Mutex(0)
        let token = CachedToken(minimumAge: 20 * 60_000, shared: nil, now: { time.now }) { () async throws(PushOutcomeError) in
            let number = made.withLock { count in
                count += 1
                return count
            }
            let renewal = Milliseconds(clamping: time.now.count + 3_000_000)
            return ProviderToken(text: Secret("\(number)"), made: time.now, renewal: renewal)
        }
        #expect(try await token.current() == "1")
        await token.rejected("1")
        #expect(try await token.current() == "1")
        time.advance(-7_200_000)
        await token.rejected("1")
        #expect(try await token.current() == "2")
    }

    /// A node sends also while its database does not answer. Once that is back, the others use this node's token.
    @Test func lostDatabaseStopsNoPush() async throws {
        let server = try await PostgresServer()
        try await withNodes(on: server) { apns, nodes, _ in
            for node in nodes { _ = await node.send() }
            time.advance(51 * 60_000)
            try server.freeze()
            #expect(await nodes[0].send() == .accepted(id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E"))
            try server.resume()
            #expect(apns.now.tokens.count == 2)
            for node in nodes { while (try? await node.token.stored()) == nil {} }
            time.advance(61_000)
            for node in nodes { #expect(await node.send() == .accepted(id: "EC1BF194-B3B2-424A-89A9-5A918A6E6B4E")) }
            #expect(apns.now.tokens.count == 2)
        }
    }
}
#endif
