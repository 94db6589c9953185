// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayServer

#if Postgres
@testable import RelayPostgres
#endif

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// What every store has to do.
@Suite struct RelayStoreTests {
    enum Kind: CaseIterable, Sendable {
        case disk, memory, uncached, withoutDatabase, cachedWithoutDatabase
        #if Postgres
        case postgres
        #endif

        static let all = allCases.filter(\.isPossible)

        /// Whether several nodes can use it.
        var isShared: Bool {
            #if Postgres
            self == .postgres
            #else
            false
            #endif
        }

        private var isPossible: Bool {
            #if Postgres
            if self == .postgres { return PostgresServer.isPossible }
            #endif
            return true
        }

        func open() async throws -> any RelayStore {
            switch self {
            case .disk: try SQLiteStore(directory: temporaryDirectory())
            case .memory: try SQLiteStore()
            case .uncached: try SQLiteStore(isCaching: false)
            case .withoutDatabase: MemoryStore()
            case .cachedWithoutDatabase: MemoryStore(isCaching: true)
            #if Postgres
            case .postgres: try await ClaimingStore(PostgresStore.opened(PostgresServer.shared.makeDatabase()))
            #endif
            }
        }
    }

    let account = AccountID(of: Identity(issuer: "https://issuer.example", subject: "me"))
    let other = AccountID(of: Identity(issuer: "https://issuer.example", subject: "other"))
    let identity = Identity(issuer: "https://issuer.example", subject: "me")

    private func filled(_ kind: Kind) async throws -> any RelayStore {
        let store = try await kind.open()
        let (account, other, identity) = (account, other, identity)
        try await store.transact {
            try $0.addAccount(account, identity: identity, time: 1)
            try $0.addAccount(other, identity: Identity(issuer: "embedded", subject: "me"), time: 2)
        }
        return store
    }

    @Test(arguments: Kind.all) func appIdentitiesHaveAppsAndCredentials(_ kind: Kind) async throws {
        let store = try await kind.open()
        func credential(_ id: String, _ identity: String, created: Int64) -> CredentialRow {
            CredentialRow(id: id, identity: identity, type: "fcm", label: "label", sealed: [0, 1, 255], created: created)
        }
        let apps = [AppIdentity.App(.android, id: "b"), .init(.ios, id: "a")]
        let first = AppIdentity(id: "a.example", apps: apps, proof: "proof", created: 1)
        let second = AppIdentity(id: "b.example", proof: "other", verified: 7, created: 2)
        let credentials = [credential("2", "b.example", created: 1), credential("1", "a.example", created: 2)]
        try await store.transact { store in
            try store.put(second)
            try store.put(first)
            for credential in credentials.reversed() { try store.add(credential) }
            #expect(try store.appIdentities() == [first, second])
            #expect(try store.credentials() == credentials)
        }
        try await store.transact { store in
            var changed = first
            changed.verified = 9
            changed.apps = [.init(.web, id: "c")]
            try store.put(changed)
            // The credentials stay.
            #expect(try store.credentials() == credentials)
            #expect(try store.appIdentity("a.example") == changed)
            try store.removeAppIdentity("a.example")
            #expect(try store.appIdentity("a.example") == nil)
            #expect(try store.credentials() == [credentials[0]])
            try store.removeCredential("2")
            #expect(try store.credentials().isEmpty)
            #expect(try store.appIdentities() == [second])
        }
    }

    @Test(arguments: Kind.all) func accountsHaveNamesAndIdentities(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let (account, other, identity) = (account, other, identity)
        let second = Identity(issuer: "https://second.example", subject: "me")
        try await store.transact { store in
            #expect(try store.accounts().map(\.id) == [account, other])
            try store.setName("Anna", of: account)
            try store.setName("Anna", of: account)
            #expect(throws: AccountNameTaken.self) { try store.setName("Anna", of: other) }
            let linked = AccountIdentity(second, linker: EndpointID(P256SigningKey().publicKey), added: 7)
            try store.add(linked, to: account)
            try store.setDisabled(true, of: other)
            #expect(try store.isDisabled(other) && !store.isDisabled(account))
            let row = try #require(try store.account(account))
            #expect(
                row
                    == AccountRow(
                        id: account,
                        name: "Anna",
                        isDisabled: false,
                        created: 1,
                        identities: [.init(identity, added: 1), linked],
                        endpoints: 0
                    )
            )
            #expect(try store.account(of: second) == account)
            // Only its own account loses it.
            try store.remove(second, from: other)
            #expect(try store.account(of: second) == account)
            try store.remove(second, from: account)
            #expect(try store.account(of: second) == nil && store.account(account)?.identities == [.init(identity, added: 1)])
            try store.add(linked, to: account)
        }
        try await store.transact { store in
            try store.removeAccount(account, time: 5)
            #expect(try store.accounts().map(\.id) == [other])
            #expect(try store.account(of: identity) == nil && store.account(of: second) == nil)
            #expect(try store.isRemoved(identity) && store.isRemoved(second))
            #expect(try !store.isRemoved(Identity(issuer: "embedded", subject: "me")))
            try store.setName("Anna", of: other)
            // An identity that is linked again is not removed any more.
            try store.add(.init(second, added: 6), to: other)
            #expect(try !store.isRemoved(second))
        }
    }

    @Test(arguments: Kind.all) func expiredRevocationsOfTokensAreDeleted(_ kind: Kind) async throws {
        let store = try await kind.open()
        try await store.transact { store in
            try store.addRevokedToken("one", ends: 10, now: 1)
            try store.addRevokedToken("two", ends: 20, now: 9)
            #expect(try Set(store.revokedTokens().map(\.digest)) == ["one", "two"])
            try store.addRevokedToken("three", ends: 30, now: 10)
            #expect(try Set(store.revokedTokens().map(\.digest)) == ["two", "three"])
        }
    }

    @Test(arguments: Kind.all) func failedTransactionUndoesOnlyItself(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let account = account
        let order = Mutex<[Int]>([])
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<100 {
                group.addTask {
                    _ = try? await store.transact { store in
                        try store.put(.sample(index, account))
                        if index % 3 == 0 { throw TestError("undo") }
                    }
                }
            }
        }
        let ids = Set(try await store.transact { try $0.endpoints(of: account) }.map(\.id))
        #expect(ids == Set((0..<100).filter { $0 % 3 != 0 }.map { EndpointRow.sample($0, account).id }))

        for index in 0..<100 {
            store.submit(for: nil, { _ in if index % 2 == 0 { throw TestError("no") } }) { _ in order.withLock { $0.append(index) } }
        }
        try await store.transact { _ in }
        #expect(order.withLock { $0 } == Array(0..<100))
    }

    @Test(arguments: Kind.all) func identitiesLeadToAccounts(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let (account, identity) = (account, identity)
        let found = try await store.transact {
            (try $0.account(of: identity), try $0.account(of: Identity(issuer: "https://issuer.example", subject: "you")))
        }
        #expect(found.0 == account)
        #expect(found.1 == nil)
        await #expect(throws: StoreError.self) {
            try await store.transact { try $0.addAccount(AccountID("another"), identity: identity, time: 3) }
        }
        // A new database gives the same account id to the same identity, and to no other.
        #expect(AccountID(of: identity) == account)
        #expect(AccountID(of: Identity(issuer: "https://issuer.exampl", subject: "eme")) != account)
    }

    @Test(arguments: Kind.all) func removedEndpointTakesItsDataWithIt(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let (account, other) = (account, other)
        var (first, second) = (EndpointRow.sample(1, account), EndpointRow.sample(2, account))
        first.version = .max
        first.hasHosted = true
        first.departure = .init(reason: .suspended, time: 5)
        second.record = [9]
        (second.isEstablished, second.isRoot) = (true, true)
        second.joining = Joining(time: 7, invitedBy: first.id, address: "2001:db8::1")
        second.login = Login(issuer: "embedded", session: "s")
        let outsider = EndpointRow.sample(3, other)
        try await store.transact { [first, second] in
            for row in [first, second, outsider] { try $0.put(row) }
            try $0.put(RegistrationRow(appID: "b", version: 1, registration: [1]), of: first.id, in: account)
            try $0.put(RegistrationRow(appID: "a", version: 7, registration: [2]), of: first.id, in: account)
            try $0.put(RegistrationRow(appID: "a", version: .max, registration: [3]), of: first.id, in: account)
            try $0.putVoucher([1], for: first.id, by: second.id, of: account)
            try $0.putVoucher([2], for: first.id, by: second.id, of: account)
            try $0.putVoucher([3], for: second.id, by: first.id, of: account)
        }
        let read = try await store.transact { [first, second] store in
            (
                try store.endpoint(first.id), try store.endpoints(of: account), try store.registrations(of: first.id),
                try store.vouchers(for: first.id), try store.vouchers(for: second.id)
            )
        }
        #expect(read.0 == first)
        #expect(Set(read.1) == [first, second])
        #expect(
            read.2 == [
                RegistrationRow(appID: "a", version: .max, registration: [3]), RegistrationRow(appID: "b", version: 1, registration: [1]),
            ]
        )
        #expect(read.3 == [[2]])
        #expect(read.4 == [[3]])

        // Nothing crosses accounts.
        var moved = first
        moved.account = other
        await #expect(throws: (any Error).self) { try await store.transact { [moved] in try $0.put(moved) } }
        await #expect(throws: StoreError.self) {
            try await store.transact { [first] in try $0.putVoucher([1], for: first.id, by: outsider.id, of: account) }
        }
        await #expect(throws: StoreError.self) {
            try await store.transact {
                try $0.put(RegistrationRow(appID: "a", version: 1, registration: []), of: EndpointRow.sample(9, account).id, in: account)
            }
        }
        try await store.transact { [first] in try $0.removeEndpoint(first.id, of: other) }
        let stays = try await store.transact { [first] in try $0.endpoint(first.id) }
        #expect(stays == first)

        try await store.transact { [first, second] in
            try $0.removeEndpoint(first.id, of: account)
            let statement = RevocationRow.Statement(revoker: second.id, revocation: [5])
            try $0.add(RevocationRow(of: first, statement: statement, time: 1, isKept: true, loginsEnded: false))
            try $0.add(RevocationRow(of: first, statement: nil, time: 9, isKept: true, loginsEnded: true))
        }
        let left = try await store.transact { [first, second] store in
            (
                try store.endpoints(of: account), try store.registrations(of: first.id), try store.vouchers(for: second.id),
                try store.revocation(of: first.id)
            )
        }
        #expect(left.0 == [second])
        #expect(left.1.isEmpty)
        #expect(left.2.isEmpty)
        // The first revocation is kept.
        let statement = RevocationRow.Statement(revoker: second.id, revocation: [5])
        #expect(left.3 == RevocationRow(of: first, statement: statement, time: 1, isKept: true, loginsEnded: false))
        let revocation = try await store.transact { [second] in try $0.revocation(of: second.id) }
        #expect(revocation == nil)
    }

    @Test(arguments: Kind.all) func revocationStaysUntilItsLoginsHaveEnded(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let (account, other) = (account, other)
        let rows = (1...4).map { EndpointRow.sample($0, $0 == 4 ? other : account) }
        let revocations = zip(rows, [(true, false), (false, false), (true, true), (true, false)]).map {
            RevocationRow(of: $0, statement: nil, time: $0.joining.time.count, isKept: $1.0, loginsEnded: $1.1)
        }
        try await store.transact { store in
            for row in rows { try store.put(row) }
            for row in rows { try store.removeEndpoint(row.id, of: row.account) }
            for revocation in revocations { try store.add(revocation) }
        }
        let before = try await store.transact { store in
            (
                try store.revocations(of: account), try store.revocationCount(of: account),
                try store.revocationsWithLogins(in: .all, limit: 9), try store.revocationsWithLogins(in: .all, limit: 1)
            )
        }
        #expect(before.0 == [revocations[0], revocations[2]])
        #expect(before.1 == 3)
        #expect(before.2 == [revocations[0], revocations[1], revocations[3]])
        #expect(before.3 == [revocations[0]])
        try await store.transact { store in
            for row in rows.prefix(2) { try store.loginsEnded(of: row.id) }
        }
        let after = try await store.transact { store in
            (
                try rows.map { try store.revocation(of: $0.id)?.loginsEnded }, try store.revocationCount(of: account),
                try store.revocationsWithLogins(in: .all, limit: 9)
            )
        }
        #expect(after.0 == [true, nil, true, false])
        #expect(after.1 == 2)
        #expect(after.2 == [revocations[3]])
    }

    @Test(arguments: Kind.all) func endpointsAreFoundByKeyAndVouchersByGiver(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let account = account
        let (first, second) = (EndpointRow.sample(1, account), EndpointRow.sample(2, account))
        let found = try await store.transact { store in
            for row in [first, second] { try store.put(row) }
            try store.putVoucher([1], for: first.id, by: second.id, of: account)
            return (
                try store.endpoint(keyThumbprint: second.keyThumbprint), try store.endpoint(keyThumbprint: "x"),
                try store.vouchers(by: second.id, of: account), try store.vouchers(by: first.id, of: account)
            )
        }
        #expect(found.0 == second)
        #expect(found.1 == nil)
        #expect(found.2 == [[1]])
        #expect(found.3 == [])
    }

    @Test(arguments: Kind.all) func storedCommandsAreReadUnchanged(_ kind: Kind) async throws {
        let store = try await filled(kind)
        let (account, other) = (account, other)
        let sender = EndpointRow.sample(1, account).id
        let target = EndpointRow.sample(2, account).id
        let commands = try (1...5).map { try CommandDescriptor.sample($0, sender, target) }
        let states: [MailboxCommand.State] = [
            .stored, .offered(received: false, cancelRequested: true), .offered(received: false, cancelRequested: false),
            .final(CommandFinal(outcome: .failed(reason: "x"), receipt: [1, 2], reply: [3]), since: 9),
            .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost)), since: 9),
        ]
        try await store.transact { store in
            for (command, state) in zip(commands, states) {
                let isNew = try store.add(
                    MailboxCommand(restoring: command, state: .stored),
                    urgency: .urgent,
                    blob: [UInt8(command.size)],
                    account: account
                )
                #expect(isNew)
                try store.update(MailboxCommand(restoring: command, state: state), account: account)
            }
        }
        func key(_ command: CommandDescriptor, _ account: AccountID) -> StoredCommandKey {
            StoredCommandKey(account: account, command: command.key)
        }
        for (command, state) in zip(commands, states) {
            let (own, others) = (key(command, account), key(command, other))
            #expect(try await store.transact { try $0.command(own) } == MailboxCommand(restoring: command, state: state))
            #expect(try await store.transact { try $0.command(others) } == nil)
            #expect(try await store.transact { try $0.blob(of: others) } == nil)
            let blob = try await store.transact { try $0.blob(of: own) }
            if case .final = state { #expect(blob == nil) } else { #expect(blob == [UInt8(command.size)]) }
            let isNew = try await store.transact {
                try $0.add(MailboxCommand(restoring: command, state: .stored), urgency: .urgent, blob: [8], account: account)
            }
            #expect(!isNew)
            #expect(try await store.transact { try $0.command(own) } == MailboxCommand(restoring: command, state: state))
        }
        let lane = commands[0].lane
        let seen = try await store.transact { store in
            (
                try store.mailbox(of: target, account: account), try store.mailboxUse(of: target, account: account),
                try store.outcomesUse(of: sender, account: account), try store.highestNumber(in: lane, account: account),
                try store.commands(from: sender, isFinal: true, account: account)
            )
        }
        #expect(seen.0 == Array(commands.prefix(3)))
        #expect(seen.1 == MailboxUse(commands: 3, bytes: 1 + 2 + 3))
        #expect(seen.2 == MailboxUse(commands: 2, bytes: 3))
        #expect(seen.3 == UInt64.max - 1)
        #expect(seen.4 == commands.suffix(2).map(\.key))
        let unseen = try await store.transact { store in
            (
                try store.mailbox(of: target, account: other), try store.mailboxUse(of: target, account: other),
                try store.highestNumber(in: lane, account: other)
            )
        }
        #expect(unseen.0.isEmpty)
        #expect(unseen.1 == MailboxUse())
        #expect(unseen.2 == nil)

        let due = try await store.transact {
            (try $0.dueCommands(in: .all, at: 1_000, limit: 10), try $0.dueCommands(in: .all, at: .max, limit: 2))
        }
        #expect(due.0 == [key(commands[0], account)])
        #expect(due.1.count == 2)
        try await store.transact { store in
            let next = try #require(try store.nextDue(in: .all))
            #expect(try store.dueCommands(in: .all, at: next, limit: 10).count == 1)
            #expect(try store.dueCommands(in: .all, at: next - 1, limit: 10).isEmpty)
        }
        let (gone, wrong) = (key(commands[3], account), key(commands[4], other))
        try await store.transact {
            try $0.removeCommand(gone)
            try $0.removeCommand(wrong)
        }
        #expect(try await store.transact { try $0.command(gone) } == nil)
        #expect(try await store.transact { try $0.outcomesUse(of: sender, account: account) } == MailboxUse(commands: 1, bytes: 0))
    }
}

extension EndpointRow {
    static func sample(_ number: Int, _ account: AccountID) -> EndpointRow {
        let id = EndpointID(digest: Digest256(hashing: Array("\(number)".utf8)))
        return EndpointRow(
            id: id,
            account: account,
            version: UInt64(number),
            record: [UInt8(truncatingIfNeeded: number)],
            system: SystemID(digest: id.digest),
            keyThumbprint: Base64.url.encode(id.digest.bytes),
            joining: Joining(time: Milliseconds(clamping: Int64(number)))
        )
    }
}

extension CommandDescriptor {
    static func sample(_ number: Int, _ sender: EndpointID, _ target: EndpointID) throws -> CommandDescriptor {
        CommandDescriptor(
            id: try #require(CommandID("018f0000-0000-7000-8000-00000000000\(number)")),
            lane: CommandLane(sender: sender, target: target, appID: "app"),
            number: number == 5 ? .max - 1 : UInt64(number),
            created: 10,
            expires: 1_000,
            digest: Digest256(hashing: [UInt8(number)]),
            size: number
        )
    }
}

/// All folders of a run, removed when it ends.
private let temporaryRoot: URL = {
    atexit { try? FileManager.default.removeItem(at: temporaryRootURL) }
    return temporaryRootURL
}()

private var temporaryRootURL: URL {
    FileManager.default.temporaryDirectory.appending(path: "relay-store-\(ProcessInfo.processInfo.processIdentifier)")
}

/// A folder that does not exist yet.
func temporaryDirectory() throws -> String {
    try FileManager.default.createDirectory(at: temporaryRoot, withIntermediateDirectories: true)
    return temporaryRoot.appending(path: UUID().uuidString).path
}
