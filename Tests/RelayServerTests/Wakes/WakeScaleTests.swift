// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Logging
import RelayProtocol
import Testing

@testable import RelayServer

/// `DEVICE_RELAY_MEASURE=1 swift test --filter WakeScaleTests` starts a relay with 100,000 commands for 10,000 sleeping endpoints.
@Suite(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_MEASURE"] != nil, "only when it is to be measured"))
struct WakeScaleTests {
    private static let (accounts, endpointsPerAccount, commandsPerEndpoint) = (200, 50, 10)

    private func fill(_ directory: String, now: Int64) async throws {
        let store = try SQLiteStore(directory: directory)
        for number in 0..<Self.accounts {
            let identity = Identity(issuer: "embedded", subject: "\(number)")
            let account = AccountID(of: identity)
            try await store.transact(for: account) { store in
                try store.addAccount(account, identity: identity, time: 1)
                let rows = (0..<Self.endpointsPerAccount).map { EndpointRow.sample(number * 1_000 + $0, account) }
                for (place, row) in rows.enumerated() {
                    try store.put(row)
                    let channel = PushRegistration.fcm(token: Secret(String(repeating: "t", count: 160)))
                    var push = PushRow(
                        endpoint: row.id,
                        account: account,
                        appID: "player",
                        displayName: "Player",
                        channel: channel,
                        registered: now
                    )
                    push.sent(.urgent, at: now - 50_000)
                    try store.put(push)
                    for index in 0..<Self.commandsPerEndpoint {
                        let id = try #require(CommandID(String(format: "018f0000-0000-7000-8000-%012x", place << 8 | index)))
                        let command = CommandDescriptor(
                            id: id,
                            lane: CommandLane(sender: rows[0].id, target: row.id, appID: "app\(row.id)"),
                            number: UInt64(index),
                            created: now,
                            expires: now + 86_400_000,
                            digest: Digest256(hashing: [1]),
                            size: 600
                        )
                        let key = MailboxCommand(restoring: command, state: .stored)
                        _ = try store.add(key, urgency: .urgent, blob: Array(repeating: 1, count: 600), account: account)
                    }
                }
            }
        }
        store.close()
    }

    @Test func startWithAHundredThousandCommands() async throws {
        let (directory, now) = (try temporaryDirectory(), Int64(1_800_000_000_000))
        try await fill(directory, now: now)
        let clock = CoreWorld.TestClock()
        let (wakes, before) = (RecordingWakes(), memory())
        var core: RelayCore?
        let start = try await ContinuousClock().measure {
            let store = try SQLiteStore(directory: directory)
            let opened = RelayCore(
                store: store,
                relay: RelayID(P256SigningKey().publicKey),
                limits: Limits(),
                now: { Milliseconds(clamping: clock.now) },
                logger: Logger(label: "test"),
                wakes: wakes
            )
            try await opened.start()
            core = opened
        }
        let relay = try #require(core)
        clock.pass(60_000)
        var (sent, ticks) = (0, 0)
        let time = try await ContinuousClock().measure {
            while sent < Self.accounts * Self.endpointsPerAccount, ticks < 1_000 {
                relay.handleDeadlines()
                try await relay.store.transact { _ in }
                try await relay.store.transact { _ in }
                sent += wakes.take().count
                wakes.report(.accepted)
                ticks += 1
            }
        }
        print("start \(start), \(sent) wakes in \(ticks) ticks of \(time / ticks), memory +\((memory() - before) >> 20) MiB")
        #expect(sent == Self.accounts * Self.endpointsPerAccount)
    }

    /// Resident memory in bytes.
    private func memory() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return (line.flatMap { Int($0.filter(\.isNumber)) } ?? 0) << 10
    }
}
