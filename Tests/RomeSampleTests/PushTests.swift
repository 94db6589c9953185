// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

@testable import RomeSampleModel

/// What the app hands over of Apple's push service. The push service itself is not there: `RelayPushTests` has stand-ins for it.
@MainActor @Suite(.serialized, .timeLimit(.minutes(10))) struct SamplePushTests {
    @Test func relayWithoutACredentialSaysSo() async throws {
        try await withBench { bench in
            let phone = try await bench.joined("Phone")
            let (push, device) = (phone.sample.push, try #require(phone.sample.device))
            // At the start there is no token.
            try await until { push.notice.kind == .success }
            #expect(push.notice.title.contains("every 15 minutes"))
            await phone.sample.tokenArrived([0x00, 0x0F, 0xA0, 0xFF], isSandbox: true)
            #expect(push.token == .apns("000fa0ff", isSandbox: true))
            #expect(push.notice.title == "The relay cannot wake this device" && push.notice.code == "notSupported")
            #expect(push.notice.nextStep.contains("operator") && push.notice.reason.contains("every 15 minutes"))
            #expect(device.platform.notifications.registration(for: device.account)?.type == .polling)
            push.tokenFailed()
            #expect(push.token == .none)
        }
    }

    @Test func notificationFetchesWhatWaits() async throws {
        try await withBench { bench in
            let tv = try await bench.joined("TV")
            let phone = try await bench.joined("Phone", by: tv)
            let launching = try await phone.launching(on: "TV", "https://films.example/42")
            await tv.sample.suspend()
            _ = try await phone.row("TV") { $0.isAsleep }
            async let launch: Void = launching.launch()
            try await until { launching.notice?.title == "Accepted, waiting" }
            let device = try #require(tv.sample.device)
            let relay = try #require(device.membership.relayID)
            let endpoint = try #require(device.platform.accounts.endpoint(of: device.account))
            let content: [AnyHashable: Any] = ["relay": relay, "endpoint": "\(endpoint)", "class": "urgent"]
            #expect(await tv.sample.received(ConnectedDevicesNotification(parsing: [WakePayload.key: content])))
            await launch
            #expect(launching.notice?.title == "Opened on TV" && tv.opened.count == 1)
            // It sleeps again.
            _ = try await phone.row("TV") { $0.isAsleep }
        }
    }

    @Test func otherNotificationsAreNone() async throws {
        try await withBench { bench in
            let phone = try await bench.joined("Phone")
            let others: [[AnyHashable: Any]] = [
                [:], ["aps": ["alert": "hello"]], [WakePayload.key: 7], [WakePayload.key: "{"],
                [WakePayload.key: ["relay": "x", "class": "urgent"]],
            ]
            for content in others { #expect(await !phone.sample.received(ConnectedDevicesNotification(parsing: content))) }
            // It is for another device.
            let device = try #require(phone.sample.device)
            let other: [AnyHashable: Any] = [
                "relay": try #require(device.membership.relayID), "endpoint": String(repeating: "a", count: 52), "class": "urgent",
            ]
            #expect(await !phone.sample.received(ConnectedDevicesNotification(parsing: [WakePayload.key: other])))
            // Nobody is signed in.
            let empty = bench.phone("Empty")
            #expect(await !empty.sample.received(ConnectedDevicesNotification(parsing: [WakePayload.key: other])))
            #expect(empty.sample.device == nil)
        }
    }
}
