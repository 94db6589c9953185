// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayProtocol
import RelayStorage
import RelayTesting
import Synchronization
import Testing

@testable import RelayPostgres
@testable import RelayServer

/// Several nodes on one database.
@Suite(.enabled(if: PostgresServer.isPossible)) struct PostgresLeaseTests {
    private let identity = Identity(issuer: "https://issuer.example", subject: "me")
    private var account: AccountID { AccountID(of: identity) }

    private func node(_ name: String, on database: [(name: String, value: String)]) throws -> PostgresStore {
        try PostgresStore.opened(database, url: Origin("https://\(name).example"))
    }

    private func kill(_ store: PostgresStore, on database: [(name: String, value: String)]) throws {
        let connection = try PostgresConnection(database)
        try connection.begin()
        _ = try connection.run("UPDATE node SET dead = 1 WHERE id = ?", [.text("\(store.nodeID)")], mayWrite: true)
        try connection.commit()
    }

    @Test func oneNodeServesAnAccount() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try node("one", on: database), try node("two", on: database))
        let (identity, account) = (identity, account)
        let since = try #require(await one.claim(.of(identity)).since)
        try await one.transact(for: account) { try $0.addAccount(account, identity: identity, time: 1) }
        guard case .elsewhere(account, let url) = await two.claim(.of(identity)) else {
            Issue.record("it is not elsewhere")
            return
        }
        #expect(url == Origin("https://one.example"))
        await #expect(throws: StoreError.leaseLost) { try await two.transact(for: account) { try $0.setName("two", of: account) } }
        #expect(await one.claim(.known(account)).since == since)
        try await one.transact(for: account) { try $0.setName("one", of: account) }
        #expect(try await two.read { try $0.name(of: account) } == "one")
        for store in [one, two] { store.close() }
    }

    /// The account of an identity that was linked is not the one that is derived from it.
    @Test func linkedIdentityLeadsToItsAccount() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let one = try node("one", on: database)
        let (identity, account) = (identity, account)
        #expect(await one.claim(.of(identity)).isHere)
        let linked = (0..<20).map { Identity(issuer: "https://other.example", subject: "a \"b\" \\ \($0)") }
        try await one.transact(for: account) { store in
            try store.addAccount(account, identity: identity, time: 1)
            for other in linked { try store.add(AccountIdentity(other, added: 1), to: account) }
        }
        // Their threads differ.
        for other in linked { #expect(await one.claim(.of(other)).account == account) }
        one.close()
    }

    @Test func leaseOfAStoppedNodeIsFree() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try node("one", on: database), try node("two", on: database))
        #expect(await one.claim(.of(identity)).isHere)
        one.close()
        #expect(await two.claim(.of(identity)).isHere)
        two.close()
    }

    @Test func leaseThatIsGivenBackIsFree() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try node("one", on: database), try node("two", on: database))
        let (lost, losses) = AsyncStream.makeStream(of: AccountID.self)
        one.begin { if case .lost(let account) = $0 { losses.yield(account) } }
        let (identity, account) = (identity, account)
        #expect(await one.claim(.of(identity)).isHere)
        async let stored: Void = one.transact(for: account) { try $0.addAccount(account, identity: identity, time: 1) }
        try await stored
        one.giveBack(account)
        #expect(await lost.first { _ in true } == account)
        await #expect(throws: StoreError.leaseLost) { try await one.transact(for: account) { try $0.name(of: account) } }
        #expect(await two.claim(.of(identity)).isHere)
        #expect(try await two.transact(for: account) { try $0.account(account) } != nil)
        for store in [one, two] { store.close() }
    }

    /// A node that the others have found dead stores and says nothing more, whatever it has in memory.
    @Test(arguments: [true, false]) func deadNodeLosesItsAccounts(writes: Bool) async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let (one, two) = (try node("one", on: database), try node("two", on: database))
        let (lost, losses) = AsyncStream.makeStream(of: AccountID.self)
        one.begin { if case .lost(let account) = $0 { losses.yield(account) } }
        let (identity, account) = (identity, account)
        #expect(await one.claim(.of(identity)).isHere)
        try await one.transact(for: account) { store in
            try store.addAccount(account, identity: identity, time: 1)
            try store.setName("one", of: account)
        }
        let dead = one.nodeID
        try kill(one, on: database)
        #expect(await two.claim(.of(identity)).isHere)
        try await two.transact(for: account) { try $0.setName("two", of: account) }
        await #expect(throws: StoreError.leaseLost) {
            try await one.transact(for: account) { store in
                if writes { try store.setName("stale", of: account) }
                return try store.name(of: account)
            }
        }
        #expect(await lost.first { _ in true } == account)
        #expect(try await two.transact(for: account) { try $0.name(of: account) } == "two")
        // It goes on as another node, which may serve other accounts.
        let other = Identity(issuer: "https://issuer.example", subject: "other")
        #expect(await one.claim(.of(other), until: { $0.isHere }).isHere)
        #expect(one.nodeID != dead)
        #expect(await one.claim(.of(identity), until: { $0.isElsewhere }).account == account)
        for store in [one, two] { store.close() }
    }

    /// Work of several accounts shares a commit. Only that of lost accounts fails.
    @Test func lossOfOneAccountLeavesTheOthers() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let one = try node("one", on: database)
        let identities = (0..<40).map { Identity(issuer: "https://issuer.example", subject: "\($0)") }
        for identity in identities {
            let account = AccountID(of: identity)
            #expect(await one.claim(.of(identity)).isHere)
            try await one.transact(for: account) { try $0.addAccount(account, identity: identity, time: 1) }
        }
        let lost = Set(identities.prefix(20).map { AccountID(of: $0) })
        let connection = try PostgresConnection(database)
        try connection.begin()
        for account in lost {
            _ = try connection.run(
                "UPDATE account_lease SET epoch = epoch + 1 WHERE account = ?",
                [.text(account.rawValue)],
                mayWrite: true
            )
        }
        try connection.commit()
        await withTaskGroup(of: (AccountID, Bool).self) { group in
            for identity in identities {
                let account = AccountID(of: identity)
                group.addTask {
                    do {
                        try await one.transact(for: account) { try $0.setDisabled(true, of: account) }
                        return (account, true)
                    } catch {
                        #expect(error as? StoreError == .leaseLost)
                        return (account, false)
                    }
                }
            }
            for await (account, isStored) in group { #expect(isStored != lost.contains(account)) }
        }
        for identity in identities {
            let account = AccountID(of: identity)
            #expect(try await one.read { try $0.isDisabled(account) } == !lost.contains(account))
        }
        one.close()
    }

    /// Two nodes claim the same accounts at once. Each has one node, and all work that was reported as stored is there.
    @Test func accountsThatAllClaimHaveOneNode() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let nodes = try ["one", "two", "three"].map { try node($0, on: database) }
        let accounts = (0..<60).map { AccountID(of: Identity(issuer: "https://issuer.example", subject: "\($0)")) }
        let owners = await withTaskGroup(of: (AccountID, Int, Bool).self) { group in
            for account in accounts {
                for (index, node) in nodes.enumerated() {
                    group.addTask { (account, index, await node.claim(.known(account)).isHere) }
                }
            }
            return await group.reduce(into: [AccountID: [Int]]()) { owners, claim in
                if claim.2 { owners[claim.0, default: []].append(claim.1) }
            }
        }
        #expect(owners.count == accounts.count)
        #expect(owners.values.allSatisfy { $0.count == 1 })
        for node in nodes { node.close() }
    }
}

extension PostgresStore {
    static func opened(
        _ database: [(name: String, value: String)],
        url: Origin? = nil,
        file: NodeFile? = nil
    ) throws(StoreError) -> PostgresStore {
        try PostgresStore(database, url: url, version: "test", file: file) {
            Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
        }
    }

    func claim(_ account: ClaimedAccount) async -> AccountClaim {
        await withCheckedContinuation { continuation in claim(account) { continuation.resume(returning: $0) } }
    }

    /// Claims until the answer is as expected: nodes see each other by their beats.
    func claim(_ account: ClaimedAccount, until isExpected: (AccountClaim) -> Bool) async -> AccountClaim {
        while true {
            let answer = await claim(account)
            if isExpected(answer) { return answer }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }
}

extension AccountClaim {
    var isHere: Bool { since != nil }
    var isElsewhere: Bool { if case .elsewhere = self { true } else { false } }
    var since: Milliseconds? { if case .here(_, let since) = self { since } else { nil } }
    var account: AccountID? {
        switch self {
        case .here(let account, _), .elsewhere(let account, _): account
        case .nowhere: nil
        }
    }
}

/// Claims each account before its work, as the core does.
final class ClaimingStore: RelayStore {
    private let store: PostgresStore

    init(_ store: PostgresStore) { self.store = store }

    deinit { store.close() }

    func submit(_ work: StoreWork) {
        guard let account = work.account else { return store.submit(work) }
        store.claim(.known(account)) { [store] _ in store.submit(work) }
    }

    func hasRoom(for channel: ChannelID, of account: AccountID, waiter: any ControlPeer) -> Bool {
        store.hasRoom(for: channel, of: account, waiter: waiter)
    }
}
#endif
