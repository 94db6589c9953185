// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// The cache equals the database, also after changes that were undone.
@Suite struct StoreCacheTests {
    private static let account = AccountID(of: Identity(issuer: "a", subject: "b"))
    private static let endpoints = (0..<3).map { EndpointRow.sample($0, account) }
    private static let ids = (0..<5).compactMap { CommandID("018f0000-0000-7000-8000-00000000000\($0)") }

    @Test(arguments: [1, 2, 3, 4] as [UInt64]) func cacheAgreesWithTheDatabase(seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let store = try SQLiteStore()
        let (account, endpoints) = (Self.account, Self.endpoints)
        try await store.transact { store in
            try store.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1)
            for endpoint in endpoints { try store.put(endpoint) }
        }
        for _ in 0..<60 {
            // Several at once, so that they are committed together and one that throws stands between others.
            let group = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                ((0..<Int.random(in: 1...4, using: &random)).map { _ in Step.random(&random) }, Int.random(in: 0..<4, using: &random) == 0)
            }
            for (steps, isUndone) in group {
                store.submit(for: nil) { store in
                    for step in steps { try step.take(store) }
                    if isUndone { throw TestError("undo") }
                } completion: { _ in
                }
            }
            let remembered = try await store.transact { try Picture($0) }
            let written = try store.database.inDatabase { try Picture(SQLTransaction(database: $0)) }
            #expect(remembered == written, "seed \(seed)")
            let counted = try store.database.inDatabase { try SQLTransaction(database: $0).storedBytes(of: account) }
            #expect(try await store.transact { try $0.storedBytes(of: account) } == counted, "seed \(seed)")
        }
    }

    private enum Step: Sendable {
        case add(CommandDescriptor)
        case offer(CommandDescriptor)
        case receive(CommandDescriptor)
        case end(CommandDescriptor, reply: [UInt8]?)
        case remove(CommandDescriptor)
        case put(EndpointRow)
        case vouch(Int, Int, [UInt8])
        case publish(Int, [UInt8])
        case unpublish(Int)

        static func random(_ random: inout SeededGenerator) -> Step {
            let (one, other) = (Int.random(in: 0..<3, using: &random), Int.random(in: 0..<3, using: &random))
            let lane = CommandLane(sender: endpoints[one].id, target: endpoints[other].id, appID: "app")
            let number = Int.random(in: ids.indices, using: &random)
            let command = CommandDescriptor(
                id: ids[number],
                lane: lane,
                number: UInt64(number),
                created: 10,
                expires: 1_000,
                digest: Digest256(hashing: [UInt8(number)]),
                size: number
            )
            switch Int.random(in: 0..<11, using: &random) {
            case 0, 1, 2: return .add(command)
            case 3: return .offer(command)
            case 7: return .receive(command)
            case 8: return .publish(one, [UInt8.random(in: 0...9, using: &random)])
            case 9: return .unpublish(one)
            case 4: return .end(command, reply: .random(using: &random) ? [1, 2, 3] : nil)
            case 5: return .remove(command)
            case 6:
                var row = endpoints[one]
                row.record = [UInt8.random(in: 0...9, using: &random)]
                return .put(row)
            default: return .vouch(one, other, [UInt8.random(in: 0...9, using: &random)])
            }
        }

        /// What is not possible now is left out, as the relay would.
        func take(_ store: any StoreTransaction) throws {
            func stored(_ command: CommandDescriptor) throws -> MailboxCommand? { try store.command(Picture.key(command)) }
            switch self {
            case .add(let command):
                guard try stored(command) == nil else { return }
                let row = MailboxCommand(restoring: command, state: .stored)
                #expect(try store.add(row, urgency: .urgent, blob: [UInt8(command.size)], account: account))
                #expect(try !store.add(row, urgency: .urgent, blob: [9], account: account))
            case .receive(let command):
                guard var row = try stored(command) else { return }
                for case .note(let row) in row.received() { try store.note(row, account: account) }
            case .offer(let command):
                guard let row = try stored(command), !row.isFinal else { return }
                let state = MailboxCommand.State.offered(received: false, cancelRequested: false)
                try store.update(MailboxCommand(restoring: row.command, state: state), account: account)
                _ = try store.blob(of: Picture.key(command))
            case .end(let command, let reply):
                guard let row = try stored(command), !row.isFinal else { return }
                let final = CommandFinal(outcome: .succeeded, receipt: [9], reply: reply)
                try store.update(MailboxCommand(restoring: row.command, state: .final(final, since: 5)), account: account)
            case .remove(let command): try store.removeCommand(Picture.key(command))
            case .put(let endpoint): try store.put(endpoint)
            case .vouch(let giver, let endpoint, let voucher):
                try store.putVoucher(voucher, for: endpoints[endpoint].id, by: endpoints[giver].id, of: account)
            case .publish(let endpoint, let registration):
                let row = RegistrationRow(appID: "app", version: 1, registration: registration)
                try store.put(row, of: endpoints[endpoint].id, in: account)
            case .unpublish(let endpoint): try store.removeRegistration("app", of: endpoints[endpoint].id, in: account)
            }
        }
    }

    /// All that can be read.
    private struct Picture: Equatable {
        var commands: [MailboxCommand?] = []
        var blobs: [[UInt8]?] = []
        var mailboxes: [MailboxUse] = []
        var outcomes: [MailboxUse] = []
        var endpoints: [EndpointRow?] = []
        var vouchers: [[[UInt8]]] = []
        var directory: [DirectoryEntry]
        var highest: [UInt64?] = []

        static func key(_ command: CommandDescriptor) -> StoredCommandKey { StoredCommandKey(account: account, command: command.key) }

        /// What was received is remembered only.
        private static func written(_ row: MailboxCommand) -> MailboxCommand {
            guard case .offered(_, let cancelRequested) = row.state else { return row }
            return MailboxCommand(restoring: row.command, state: .offered(received: false, cancelRequested: cancelRequested))
        }

        init(_ store: any StoreTransaction) throws {
            directory = try store.directory(of: account)
            for endpoint in StoreCacheTests.endpoints {
                for other in StoreCacheTests.endpoints {
                    highest.append(
                        try store.highestNumber(in: .init(sender: endpoint.id, target: other.id, appID: "app"), account: account)
                    )
                }
                endpoints.append(try store.endpoint(endpoint.id))
                vouchers.append(try store.vouchers(for: endpoint.id))
                mailboxes.append(try store.mailboxUse(of: endpoint.id, account: account))
                outcomes.append(try store.outcomesUse(of: endpoint.id, account: account))
                for id in ids {
                    let key = StoredCommandKey(account: account, command: CommandKey(sender: endpoint.id, id: id))
                    commands.append(try store.command(key).map(Self.written))
                    blobs.append(try store.blob(of: key))
                }
            }
        }
    }
}
