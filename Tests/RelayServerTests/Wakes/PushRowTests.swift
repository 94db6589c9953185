// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// The states of a registration, and their order in time.
@Suite struct PushRowTests {
    private static let day: Int64 = 86_400_000
    private static let key = Blob<BlobKinds.PushPublicKey>(Array(repeating: 4, count: 65))
    private static let secret = Secret(Blob<BlobKinds.PushAuthSecret>(Array(repeating: 1, count: 16)))

    static func row(_ channel: PushRegistration, registered: Int64 = 0) -> PushRow {
        PushRow(
            endpoint: EndpointID(digest: Digest256(hashing: [1])),
            account: AccountID("a"),
            appID: "player",
            displayName: "Player",
            channel: channel,
            registered: registered
        )
    }

    @Test(
        arguments: [
            (PushRegistration.apns(token: Secret("a0"), environment: .production), 30, 60), (.fcm(token: Secret("f")), 30, 60),
            (.webPush(endpoint: Secret("https://p"), publicKey: key, secret: secret), 30, 60),
            (.wns(channelURI: Secret("https://w")), 27, 30),
        ] as [(PushRegistration, Int64, Int64)]
    )
    func registrationExpires(channel: PushRegistration, expiring: Int64, expired: Int64) {
        let row = Self.row(channel)
        #expect(row.state(at: 0) == .registered)
        #expect(row.state(at: expiring * Self.day - 1) == .registered)
        #expect(row.state(at: expiring * Self.day) == .expiring)
        #expect(row.state(at: expired * Self.day - 1) == .expiring)
        #expect(row.state(at: expired * Self.day) == .expired)
        #expect(row.due == expiring * Self.day)
        #expect(row.nextStateChange(after: expiring * Self.day) == expired * Self.day)
        #expect(row.nextStateChange(after: expired * Self.day) == nil)
        var gone = row
        gone.isGone = true
        #expect(gone.state(at: 0) == .unregistered && gone.nextStateChange(after: 0) == nil)
    }

    @Test func pollingNeverExpires() {
        let row = Self.row(.polling(interval: 900_000))
        #expect(row.state(at: 1_000 * Self.day) == .registered)
        #expect(row.due == nil)
        #expect(row.expectedWithin == 900_000)
    }

    @Test func answeredWakeSaysHowLongTheNextTakes() {
        var row = Self.row(.fcm(token: Secret("f")))
        row.sent(.urgent, at: 1_000)
        row.accepted = 1_200
        #expect(row.isOutstanding(at: 2_000) && !row.isOutstanding(at: 61_000))
        let isAnswered = row.connected(at: 5_200)
        #expect(isAnswered)
        #expect(row.response == 4_000)
        #expect(row.schedule == WakeSchedule() && row.accepted == nil)
        let isChanged = row.connected(at: 9_000)
        #expect(!isChanged)
    }
}
