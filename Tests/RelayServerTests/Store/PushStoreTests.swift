// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// What every store has to do with push registrations.
@Suite struct PushStoreTests {
    private static let identity = Identity(issuer: "https://issuer.example", subject: "me")
    private static let account = AccountID(of: identity)
    private static let key = Blob<BlobKinds.PushPublicKey>(Array(repeating: 4, count: 65))
    private static let secret = Secret(Blob<BlobKinds.PushAuthSecret>(Array(repeating: 1, count: 16)))
    private static let channels: [PushRegistration] = [
        .apns(token: Secret("a0b1"), environment: .sandbox), .fcm(token: Secret("f\"ü")), .wns(channelURI: Secret("https://w")),
        .webPush(endpoint: Secret("https://p"), publicKey: key, secret: secret), .polling(interval: nil), .polling(interval: 1_000),
    ]

    private static func rows() -> [PushRow] {
        channels.enumerated().map { number, channel in
            PushRow(
                endpoint: EndpointRow.sample(number, account).id,
                account: account,
                appID: "com.example.player",
                displayName: "Player",
                channel: channel,
                registered: Int64(number)
            )
        }
    }

    private func filled(_ kind: RelayStoreTests.Kind) async throws -> any RelayStore {
        let store = try await kind.open()
        try await store.transact { store in
            try store.addAccount(Self.account, identity: Self.identity, time: 1)
            for number in 0..<Self.channels.count { try store.put(EndpointRow.sample(number, Self.account)) }
        }
        return store
    }

    @Test(arguments: RelayStoreTests.Kind.allCases) func storedRegistrationsAreReadUnchanged(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await filled(kind)
        var rows = Self.rows()
        rows[0].isGone = true
        rows[1].schedule.sent(.background, at: 5)
        rows[1].schedule.sent(.urgent, at: 9)
        (rows[1].accepted, rows[1].suppressed, rows[1].response, rows[1].due) = (7, 8, 9, 10)
        rows[2].schedule.sent(.background, at: 3)
        let written = rows
        try await store.transact { store in
            for row in Self.rows() + written { try store.put(row) }
            for row in written { #expect(try store.push(of: row.endpoint) == row) }
            #expect(try store.pushes(of: Self.account) == written.sorted { $0.endpoint < $1.endpoint })
            #expect(try store.pushes(of: AccountID("another")).isEmpty)
        }
        // A row belongs to an endpoint of its account, and goes with it.
        var foreign = written[0]
        foreign.account = AccountID("another")
        await #expect(throws: (any Error).self) { try await store.transact { [foreign] in try $0.put(foreign) } }
        try await store.transact { store in
            try store.removeEndpoint(written[0].endpoint, of: Self.account)
            #expect(try store.push(of: written[0].endpoint) == nil)
            try store.removeAccount(Self.account, time: 9)
            #expect(try store.pushes(of: Self.account).isEmpty)
        }
        await #expect(throws: (any Error).self) { try await store.transact { try $0.put(written[0]) } }
    }

    @Test(arguments: RelayStoreTests.Kind.allCases) func dueRegistrationsAreFound(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await filled(kind)
        var rows = Self.rows()
        for (number, due) in ([30, 10, nil, 20, nil, nil] as [Int64?]).enumerated() { rows[number].due = due }
        let written = rows
        try await store.transact { store in
            for row in written { try store.put(row) }
            func due(_ time: Int64, _ limit: Int = 9) throws -> [EndpointID] {
                try store.duePushes(in: .all, at: time, limit: limit).map(\.endpoint)
            }
            #expect(try due(9).isEmpty)
            #expect(try store.nextDue(in: .all) == 10)
            #expect(try due(20) == [written[1].endpoint, written[3].endpoint])
            #expect(try due(90) == [written[1].endpoint, written[3].endpoint, written[0].endpoint])
            #expect(try due(90, 1) == [written[1].endpoint])
        }
    }

    @Test(arguments: RelayStoreTests.Kind.allCases) func endpointsThatWaitForAFirstWakeAreFound(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await filled(kind)
        var rows = Self.rows()
        // Woken, gone, and polling endpoints are no candidates. A wake that no provider has accepted may be lost.
        rows[0].schedule.sent(.urgent, at: 1)
        rows[0].accepted = 1
        rows[2].schedule.sent(.urgent, at: 2)
        rows[2].accepted = 1
        rows[1].isGone = true
        let written = rows
        let candidates = [rows[2].endpoint, rows[3].endpoint].sorted()
        try await store.transact { store in
            for row in written { try store.put(row) }
            let command = try CommandDescriptor.sample(1, written[0].endpoint, written[2].endpoint)
            let row = MailboxCommand(restoring: command, state: .stored)
            #expect(try store.add(row, urgency: .background, blob: [1], account: Self.account))
            func found(_ after: EndpointID?, _ time: Int64, _ limit: Int = 9) throws -> [UnwokenPush] {
                try store.unwokenPushes(in: .all, after: after, at: time, limit: limit)
            }
            #expect(try found(nil, 5).map(\.key.endpoint) == candidates)
            #expect(try found(nil, 5).filter(\.waits).map(\.key.endpoint) == [written[2].endpoint])
            #expect(try found(nil, 1_000).filter(\.waits).isEmpty)
            #expect(try found(nil, 5, 1).map(\.key.endpoint) == [candidates[0]])
            #expect(try found(candidates[0], 5).map(\.key.endpoint) == [candidates[1]])
            #expect(try found(candidates[1], 5).isEmpty)
        }
    }

    @Test(arguments: RelayStoreTests.Kind.allCases) func wakesOfEndpointsThatWaitAreRestarted(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await filled(kind)
        var rows = Self.rows()
        // Only the first two wait; the second is gone.
        for number in 0..<3 {
            rows[number].schedule.sent(.urgent, at: 5)
            (rows[number].accepted, rows[number].suppressed, rows[number].due) = (6, 7, 8)
        }
        rows[1].isGone = true
        let written = rows
        try await store.transact { store in
            for row in written { try store.put(row) }
            for number in [0, 1, 4] {
                let command = try CommandDescriptor.sample(number, written[3].endpoint, written[number].endpoint)
                let row = MailboxCommand(restoring: command, state: .stored)
                #expect(try store.add(row, urgency: .background, blob: [1], account: Self.account))
            }
            try store.restartWakes(at: 1_000)
            for row in written { #expect(try store.push(of: row.endpoint) == row, "the commands have expired") }
            try store.restartWakes(at: 9)
            if kind.isShared {
                // The account's node does it.
                #expect(try store.openRequests(in: .all, limit: 9).map(\.request) == [.restartWakes])
                try store.restartWakes(of: Self.account, at: 9)
            }
            var restarted = written[0]
            (restarted.schedule, restarted.suppressed, restarted.due) = (WakeSchedule(), nil, 9)
            #expect(try store.push(of: restarted.endpoint) == restarted)
            for row in written.dropFirst() { #expect(try store.push(of: row.endpoint) == row) }
        }
    }

    @Test(arguments: RelayStoreTests.Kind.allCases) func mostUrgentCommandsDecide(_ kind: RelayStoreTests.Kind) async throws {
        let store = try await filled(kind)
        let (sender, target) = (EndpointRow.sample(0, Self.account).id, EndpointRow.sample(1, Self.account).id)
        try await store.transact { store in
            func waiting(_ time: Int64 = 5) throws -> WaitingCommands? { try store.waiting(for: target, account: Self.account, at: time) }
            func add(_ number: Int, _ urgency: WakePayload.Urgency) throws -> MailboxCommand {
                let row = MailboxCommand(restoring: try .sample(number, sender, target), state: .stored)
                #expect(try store.add(row, urgency: urgency, blob: [1], account: Self.account))
                return row
            }
            #expect(try waiting() == nil)
            _ = try add(1, .background)
            #expect(try waiting() == WaitingCommands(urgency: .background, expires: 1_000))
            var launch = try add(2, .urgent)
            #expect(try waiting() == WaitingCommands(urgency: .urgent, expires: 1_000))
            #expect(try waiting(1_000) == nil)
            _ = launch.cancel(now: 5)
            try store.update(launch, account: Self.account)
            #expect(try waiting() == WaitingCommands(urgency: .background, expires: 1_000))
        }
    }
}
