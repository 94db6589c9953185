// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// What the operator sets for an account, and what comes of it.
@Suite(.timeLimit(.minutes(5))) struct AccountQuotaTests {
    @Test(arguments: [
        (["endpointsPerAccount"], [], "not NAME=VALUE"),
        ([""], [], "not NAME=VALUE"),
        (["=1"], [], "no quota ''"),
        (["endpointsPerAccount="], [], "from 1 to 1024"),
        (["endpointsPerAccount=0"], [], "'0' is not a number from 1 to 1024"),
        (["endpointsPerAccount=-1"], [], "'-1' is not a number"),
        (["endpointsPerAccount=+1"], [], "'+1' is not a number"),
        (["endpointsPerAccount= 1"], [], "' 1' is not a number"),
        (["endpointsPerAccount=1=2"], [], "'1=2' is not a number"),
        (["endpointsPerAccount=٣"], [], "is not a number"),
        (["endpointsPerAccount=1025"], [], "from 1 to 1024"),
        (["accountBytes=1073741825"], [], "from 1 to 1073741824"),
        (["accountBytes=99999999999999999999"], [], "from 1 to 1073741824"),
        (["commandBytes=5"], [], "relayd serve --limit"),
        (["endpointsperaccount=5"], [], "the quotas are endpointsPerAccount"),
        (["a\u{1B}[2J=5"], [], "the quotas are"),
        (["mailboxBytes=5", "mailboxBytes=6"], [], "set twice"),
        (["mailboxBytes=5"], ["mailboxBytes"], "both set and reset"),
        (["mailboxBytes=5"], ["all"], "both set and reset"),
        ([], ["commandBytes"], "relayd serve --limit"),
        ([], ["ALL"], "the quotas are"),
    ]) func badChangesAreRefusedWithAReason(set: [String], reset: [String], reason: String) {
        let refused = #expect(throws: QuotaChange.Refused.self) { try QuotaChange(parsing: set, reset: reset) }
        #expect(refused?.description.contains(reason) == true, "\(refused?.description ?? "")")
        #expect(refused?.description.unicodeScalars.allSatisfy { $0.value >= 0x20 } == true)
    }

    @Test func changesAreRead() throws {
        let change = try QuotaChange(
            parsing: ["endpointsPerAccount=1024", "accountBytes=1073741824"],
            reset: ["mailboxBytes", "mailboxBytes"]
        )
        #expect(try change.limits() == [.endpointsPerAccount: 1_024, .accountBytes: Limits.ceiling, .mailboxBytes: nil])
        #expect(try QuotaChange(parsing: [], reset: ["all"]).limits().count == AccountQuotas.limits.count)
        #expect(try QuotaChange(parsing: [], reset: []).isEmpty)
        // What comes by the socket or from another node is checked as well.
        for values in [["commandBytes": 1], ["none": 1], ["mailboxBytes": 0], ["mailboxBytes": .min], ["mailboxBytes": .max]] {
            #expect(throws: QuotaChange.Refused.self) { try QuotaChange(values).limits() }
        }
    }

    @Test func quotasTakeThePlaceOfLimits() {
        var (quotas, limits) = (AccountQuotas(), Limits())
        limits[.mailboxBytes] = 7
        #expect(quotas.applied(to: limits) == limits)
        quotas[.endpointsPerAccount] = 20
        quotas[.mailboxBytes] = .max
        // A value of the database that this version does not allow.
        quotas[.mailboxCommands] = -5
        quotas[.commandBytes] = 5
        let applied = quotas.applied(to: limits)
        #expect(applied[.endpointsPerAccount] == 20 && applied[.mailboxBytes] == Limits.ceiling && applied[.mailboxCommands] == 1)
        #expect(applied[.commandBytes] == Limits()[.commandBytes])
        for limit in AccountQuotas.limits { quotas[limit] = nil }
        #expect(quotas.isEmpty)
    }

    // MARK: At the relay

    private func set(_ world: CoreWorld, _ account: String, _ values: [String: Int] = [:], reset: [String] = []) async throws {
        try await world.core.change(QuotaChange(values, reset: reset), of: AccountID(account))
        try await world.settle()
    }

    private func use(_ world: CoreWorld, _ account: String) async throws -> [Limit: Int] {
        try await world.core.quotaUse(of: AccountID(account)).values
    }

    @Test func mailboxOfAnAccountHasItsOwnLimit() async throws {
        let world = try await CoreWorld()
        let (phone, pc) = (TestDevice(subject: "anna"), TestDevice(subject: "anna"))
        let near = try await world.open(phone)
        try await world.open(pc).disconnect()
        var number: UInt64 = 0
        func send() async throws -> RelayMessage.Failure? {
            number += 1
            return try await near.send(try await world.command(from: phone, to: pc, number: number)).first?.failure
        }
        #expect(try await send() == nil)
        try await set(world, near.account, ["mailboxCommands": 3])
        for _ in 0..<2 { #expect(try await send() == nil) }
        let refused = try #require(try await send())
        #expect(refused.code == .mailboxFull && refused.mayHaveRun == false)
        #expect(refused.limit == ExceededLimit(LimitExceeded(limit: .mailboxCommands, allowed: 3, requested: 4)))
        // Another account keeps the relay's value.
        let (other, tv) = (TestDevice(subject: "bert"), TestDevice(subject: "bert"))
        let far = try await world.open(other)
        try await world.open(tv).disconnect()
        for number in 1...4 {
            #expect(try await far.send(try await world.command(from: other, to: tv, number: UInt64(number))).first?.isOK == true)
        }

        try await set(world, near.account, ["mailboxCommands": 4])
        #expect(try await send() == nil)
        #expect(try await use(world, near.account)[.mailboxCommands] == 4)
        // Lowered below what waits: all of it arrives.
        try await set(world, near.account, ["mailboxCommands": 1])
        #expect(try await send()?.limit?.name == "mailboxCommands")
        let host = try await world.open(pc)
        #expect(try await host.receive().compactMap(\.offered).count == 4)
        try await set(world, near.account, reset: ["mailboxCommands"])
        #expect(try await send() == nil)
        // It is the same after a restart, from what is stored.
        try await set(world, near.account, ["mailboxCommands": 5])
        try await world.restart()
        let again = try await world.open(phone, role: .client)
        let last = try await again.send(try await world.command(from: phone, to: pc, number: 100)).first?.failure
        #expect(last?.limit == ExceededLimit(LimitExceeded(limit: .mailboxCommands, allowed: 5, requested: 6)))
    }

    @Test func numberOfDevicesIsThatOfTheAccount() async throws {
        var limits = Limits()
        limits[.endpointsPerAccount] = 4
        let world = try await CoreWorld(limits: limits)
        let devices = (0..<6).map { _ in TestDevice(subject: "anna") }
        let first = try await world.open(devices[0])
        _ = first.peer.take()
        try await set(world, first.account, ["endpointsPerAccount": 2])
        #expect(first.peer.closeCode == nil, "a lower limit needs no new channel")
        #expect(try await world.open(devices[1]).limits[.endpointsPerAccount] == 4 - 2)
        func rejection(_ device: TestDevice) async throws -> RelayMessage.Rejected? {
            guard case .failure(let rejected) = try await world.connect(try device.hello(first.account)) else { return nil }
            return rejected
        }
        let rejected = try #require(try await rejection(devices[2]))
        #expect(rejected.code == .limitExceeded && !rejected.retry)
        #expect(rejected.limit == ExceededLimit(LimitExceeded(limit: .endpointsPerAccount, allowed: 2, requested: 3)))

        // Raised above the relay's value. Devices list no more endpoints than `welcome` allows, so they connect again.
        try await set(world, first.account, ["endpointsPerAccount": 5])
        #expect(first.peer.take().contains { if case .restarting = $0 { true } else { false } })
        #expect(first.peer.closeCode == 1012)
        for device in devices[2...4] { #expect(try await world.open(device).limits[.endpointsPerAccount] == 5) }
        #expect(try await rejection(devices[5])?.limit?.name == "endpointsPerAccount")

        // Lowered below what there is: all devices still come in, and list each other.
        for change in [QuotaChange(["endpointsPerAccount": 1]), QuotaChange(reset: ["endpointsPerAccount"])] {
            try await world.core.change(change, of: AccountID(first.account))
            for device in devices[...4] { #expect(try await world.open(device, role: .client).limits[.endpointsPerAccount] == 5) }
            #expect(try await rejection(devices[5])?.limit?.name == "endpointsPerAccount")
        }
        #expect(try await use(world, first.account)[.endpointsPerAccount] == 5)
    }

    @Test func accountOverItsBytesLosesNothing() async throws {
        let world = try await CoreWorld()
        let (phone, pc) = (TestDevice(subject: "anna"), TestDevice(subject: "anna"))
        let (near, far) = (try await world.open(phone), try await world.open(pc))
        var commands: [SealedCommand] = []
        for number in 1...2 {
            commands.append(try await world.command(from: phone, to: pc, number: UInt64(number), padding: 8_000))
            #expect(try await near.send(commands[number - 1]).first?.isOK == true)
        }
        try await set(world, near.account, ["accountBytes": 1_000])
        let use = try await use(world, near.account)
        let bytes = try #require(use[.accountBytes])
        #expect(bytes > 16_000 && use[.mailboxBytes] ?? 0 > 16_000 && use[.mailboxCommandsPerSender] == 2)
        #expect(try await near.send(try await world.command(from: phone, to: pc, number: 3)).first?.failure?.limit?.name == "accountBytes")
        let registration = Blob<BlobKinds.AppRegistration>(try phone.registration(near.account, appID: "app", name: "App").encoded)
        #expect(
            try await near.send(.publish(.init(ref: testRef(), registration: registration))).first?.failure?.limit?.name == "accountBytes"
        )

        func end(_ command: SealedCommand, replyBytes: Int) async throws -> [RelayMessage] {
            let reply = [UInt8](repeating: 1, count: replyBytes)
            let receipt = CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply, time: world.clock.now)
            let signed = Blob<BlobKinds.Receipt>(try Signed(receipt, key: pc.identityKey).encoded)
            return try await far.send(
                .commandResult(.init(ref: testRef(), sender: phone.id, id: command.descriptor.id, receipt: signed, reply: Blob(reply)))
            )
        }
        // A reply that takes more than its command would be something new. The target keeps it.
        #expect(try await end(commands[0], replyBytes: 20_000).compactMap(\.failure).first?.limit?.name == "accountBytes")
        #expect(try await end(commands[0], replyBytes: 1_000).compactMap(\.failure).isEmpty)
        #expect(try await near.receive().contains { $0.status != nil })
        #expect(try await self.use(world, near.account)[.accountBytes] ?? .max < bytes)
        try await set(world, near.account, reset: ["accountBytes"])
        #expect(try await end(commands[1], replyBytes: 20_000).compactMap(\.failure).isEmpty)
    }

    @Test func shareOfASenderCanBeSet() async throws {
        let world = try await CoreWorld()
        let devices = (0..<4).map { _ in TestDevice(subject: "anna") }
        let first = try await world.open(devices[0])
        var sessions: [Session] = []
        for device in devices[1...] { sessions.append(try await world.open(device)) }
        try await sessions[2].disconnect()
        try await set(world, first.account, ["mailboxCommandsPerSender": 2])
        func send(_ sender: Int, _ number: UInt64) async throws -> String? {
            let session = sender == 0 ? first : sessions[sender - 1]
            return try await session.send(try await world.command(from: devices[sender], to: devices[3], number: number)).first?.failure?
                .limit?.name
        }
        // The first one is established. The two others are new, and share a part.
        #expect(try await [send(0, 1), send(0, 2), send(0, 3)] == [nil, nil, "mailboxCommandsPerSender"])
        #expect(
            try await [send(1, 1), send(2, 1), send(1, 2), send(2, 2)] == [
                nil, nil, "mailboxCommandsPerSender", "mailboxCommandsPerSender",
            ]
        )
        let use = try await use(world, first.account)
        #expect(use[.mailboxCommandsPerSender] == 2 && use[.mailboxCommands] == 4 && use[.endpointsEverPerAccount] == 4)
    }

    /// Nor does it make an account.
    @Test func quotaOfNoAccountChangesNothing() async throws {
        let world = try await CoreWorld()
        try await set(world, String(repeating: "a", count: 32), ["mailboxBytes": 5])
        #expect(try await world.core.accounts().isEmpty)
        #expect(try await use(world, String(repeating: "a", count: 32)).values.allSatisfy { $0 == 0 })
    }
}
