// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayServer

/// An account that wants the disk for itself.
@Suite(.timeLimit(.minutes(5))) struct QuotaAttackTests {
    private static let allowed = 100_000

    private func world() async throws -> CoreWorld {
        var limits = Limits()
        limits[.accountBytes] = Self.allowed
        return try await CoreWorld(limits: limits)
    }

    private func stored(_ world: CoreWorld, _ account: String) async throws -> Int {
        try await world.store.base.transact { try $0.storedBytes(of: AccountID(account)) }
    }

    @Test func mailboxesOfAnAccountStayWithinItsByteLimit() async throws {
        let world = try await world()
        let eve = TestDevice(subject: "eve")
        let near = try await world.open(eve)
        let targets = (0..<4).map { _ in TestDevice(subject: "eve") }
        for target in targets { try await world.open(target).disconnect() }
        var (number, refused): (UInt64, RelayMessage.Failure?) = (0, nil)
        while refused == nil, number < 100 {
            number += 1
            let target = targets[Int(number) % targets.count]
            refused = try await near.send(try await world.command(from: eve, to: target, number: number, padding: 8_000)).first?.failure
        }
        #expect(refused?.code == .mailboxFull)
        #expect(refused?.limit?.name == "accountBytes")
        #expect(refused?.mayHaveRun == false)
        let bytes = try await stored(world, near.account)
        #expect((80_000...Self.allowed).contains(bytes))
        // Nor by registrations.
        let name = String(repeating: "a", count: 60)
        var published: RelayMessage.Failure?
        for app in 0..<100 where published == nil {
            let registration = Blob<BlobKinds.AppRegistration>(try eve.registration(near.account, appID: "app\(app)", name: name).encoded)
            published = try await near.send(.publish(.init(ref: testRef(), registration: registration))).first?.failure
        }
        #expect(published?.code == .limitExceeded)
        #expect(published?.limit?.name == "accountBytes")
        #expect(try await stored(world, near.account) <= Self.allowed)
        // Another account is not concerned.
        let (anna, pc) = (TestDevice(subject: "anna"), TestDevice(subject: "anna"))
        let phone = try await world.open(anna)
        try await world.open(pc).disconnect()
        #expect(try await phone.send(try await world.command(from: anna, to: pc, padding: 8_000)).first?.isOK == true)
    }

    @Test func repliesStayWithinTheByteLimitOfTheAccount() async throws {
        let world = try await world()
        let (eve, other) = (TestDevice(subject: "eve"), TestDevice(subject: "eve"))
        let (near, far) = (try await world.open(eve), try await world.open(other))
        var (refused, firstID): (RelayMessage.Failure?, CommandID?) = (nil, nil)
        for number in 1...20 where refused == nil {
            let command = try await world.command(from: eve, to: other, number: UInt64(number))
            try await near.send(command)
            let reply = [UInt8](repeating: 1, count: 20_000)
            let receipt = CommandReceipt(
                for: command.descriptor,
                outcome: .succeeded,
                reply: reply,
                time: world.clock.now
            )
            let signed = try Signed(receipt, key: other.identityKey)
            let id = command.descriptor.id
            refused = try await far.send(
                .commandResult(.init(ref: testRef(), sender: eve.id, id: id, receipt: Blob(signed.encoded), reply: Blob(reply)))
            ).compactMap(\.failure).first
            firstID = firstID ?? id
            guard refused != nil else { continue }
            // A sender that takes an outcome makes room for another.
            try await near.send(.commandAcknowledge(.init(id: firstID ?? id)))
            let settled = try await far.send(
                .commandResult(.init(ref: testRef(), sender: eve.id, id: id, receipt: Blob(signed.encoded), reply: Blob(reply)))
            )
            #expect(settled.contains { if case .commandSettled = $0 { true } else { false } })
        }
        #expect(refused?.code == .limitExceeded)
        #expect(refused?.limit?.name == "accountBytes")
        #expect(far.peer.closeCode == nil)
        #expect(try await stored(world, near.account) <= Self.allowed)
    }

    /// The target keeps the results, and handles the commands behind them.
    @Test func resultsWithoutRoomDoNotBlockTheMailbox() async throws {
        let world = try await world()
        let (eve, other, third) = (TestDevice(subject: "eve"), TestDevice(subject: "eve"), TestDevice(subject: "eve"))
        let near = try await world.open(eve)
        for device in [other, third] { try await world.open(device).disconnect() }
        for number in 1...7 { try await near.send(try await world.command(from: eve, to: third, number: UInt64(number), padding: 8_000)) }
        var commands: [SealedCommand] = []
        for number in 1...20 {
            commands.append(try await world.command(from: eve, to: other, number: UInt64(number)))
            #expect(try await near.send(commands[number - 1]).first?.isOK == true)
        }
        let far = try await world.open(other)
        var offers = try await far.receive().compactMap(\.offered)
        #expect(offers == commands.prefix(16).map(\.encoded))
        let reply = [UInt8](repeating: 1, count: 20_000)
        for command in commands.prefix(16) {
            let receipt = CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply, time: world.clock.now)
            let result = EndpointMessage.CommandResult(
                ref: testRef(),
                sender: eve.id,
                id: command.descriptor.id,
                receipt: Blob(try Signed(receipt, key: other.identityKey).encoded),
                reply: Blob(reply)
            )
            let messages = try await far.send(.commandResult(result))
            #expect(messages.compactMap(\.failure).first?.limit?.name == "accountBytes")
            offers += messages.compactMap(\.offered)
        }
        #expect(offers == commands.map(\.encoded))
        #expect(far.peer.closeCode == nil)
    }

    @Test func storedBytesOfAnAccountAreKnownAfterARestart() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "quota-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let account = AccountID(String(repeating: "a", count: 32))
        var store = try SQLiteStore(directory: directory)
        try await store.transact { store in
            try store.addAccount(account, identity: Identity(issuer: "a", subject: "b"), time: 1)
            try store.put(.sample(1, account))
            let app = RegistrationRow(appID: "app", version: 1, registration: Array(repeating: 1, count: 700))
            try store.put(app, of: EndpointRow.sample(1, account).id, in: account)
        }
        let before = try await store.transact { try $0.storedBytes(of: account) }
        #expect(before == 700 + AccountUse.overhead)
        store.close()
        store = try SQLiteStore(directory: directory)
        #expect(try await store.transact { try $0.storedBytes(of: account) } == before)
        try await store.transact { try $0.removeEndpoint(EndpointRow.sample(1, account).id, of: account) }
        #expect(try await store.transact { try $0.storedBytes(of: account) } == 0)
        store.close()
    }
}
