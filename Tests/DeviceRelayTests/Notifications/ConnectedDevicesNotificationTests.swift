// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// The payloads of all push services, and whatever else an app may get.
@Suite struct ConnectedDevicesNotificationTests {
    private static let relay = RelayID(P256SigningKey().publicKey)
    private static let endpoint = EndpointID(P256SigningKey().publicKey)
    private static let payload = WakePayload(relay: relay, endpoint: endpoint, urgency: .urgent)
    private static var text: String { "{\"\(WakePayload.key)\":\(payload.json)}" }

    private func check(_ notification: ConnectedDevicesNotification?, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(notification?.relay == Self.relay, sourceLocation: sourceLocation)
        #expect(notification?.endpoint == Self.endpoint, sourceLocation: sourceLocation)
        #expect(notification?.isUrgent == true, sourceLocation: sourceLocation)
    }

    @Test func everyFormIsRead() throws {
        #expect(Self.text.utf8.count <= WakePayload.maximumBytes)
        let object = try JSONSerialization.jsonObject(with: Data("{\"aps\":{\"content-available\":1},\(Self.text.dropFirst())".utf8))
        let userInfo: [AnyHashable: Any] = try #require(object as? [String: Any])
        check(ConnectedDevicesNotification(parsing: userInfo))
        check(ConnectedDevicesNotification(parsing: [WakePayload.key: Self.payload.json, "other": "x"] as [String: String]))
        check(ConnectedDevicesNotification(parsing: [WakePayload.key: Self.payload.json] as [AnyHashable: Any]))
        check(ConnectedDevicesNotification(parsing: Data(Self.text.utf8)))
        check(ConnectedDevicesNotification(parsing: Array(Self.text.utf8)))
        check(ConnectedDevicesNotification(parsing: Self.text))
        let background = WakePayload(relay: Self.relay, endpoint: Self.endpoint, urgency: .background)
        #expect(ConnectedDevicesNotification(parsing: "{\"\(WakePayload.key)\":\(background.json)}")?.isUrgent == false)
    }

    @Test(
        arguments: [
            "", "{}", "null", "[]", "{\"deviceRelay\":null}", "{\"deviceRelay\":[]}", "{\"deviceRelay\":\"x\"}", "{\"deviceRelay\":{}}",
            "{\"deviceRelay\":{\"relay\":1,\"endpoint\":2,\"class\":3}}", "\u{0}", "{\"deviceRelay\":{\"relay\":\"a\"",
            String(repeating: "[", count: 4_000), String(repeating: "a", count: 100_000),
        ]
    )
    func otherContentIsNotOurs(text: String) {
        #expect(ConnectedDevicesNotification(parsing: text) == nil)
        #expect(ConnectedDevicesNotification(parsing: [WakePayload.key: text] as [String: String]) == nil)
        #expect(ConnectedDevicesNotification(parsing: [WakePayload.key: text] as [AnyHashable: Any]) == nil)
    }

    @Test func wrongFieldsAreNotOurs() {
        for (relay, endpoint, urgency) in [
            ("x", "\(Self.endpoint)", "urgent"), ("\(Self.relay)", "x", "urgent"), ("\(Self.relay)", "\(Self.endpoint)", "now"),
        ] {
            let fields = ["relay": relay, "endpoint": endpoint, "class": urgency]
            #expect(ConnectedDevicesNotification(parsing: [WakePayload.key: fields] as [AnyHashable: Any]) == nil)
        }
        let other: [AnyHashable: Any] = ["aps": ["alert": "Hello"], 7: 1, WakePayload.key: 7]
        #expect(ConnectedDevicesNotification(parsing: other) == nil)
        #expect(ConnectedDevicesNotification(parsing: Array(Self.text.utf8).map { $0 == 0x7B ? 0xFF : $0 }) == nil)
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func changedPayloadsDoNotTrap(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            var bytes = Array(Self.text.utf8)
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let place = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = .random(in: 0...255, using: &random)
                case 1: bytes.removeSubrange(place...)
                default: bytes.insert(.random(in: 0...255, using: &random), at: place)
                }
                if bytes.isEmpty { break }
            }
            // Whatever is read is an identifier of the right form.
            if let read = ConnectedDevicesNotification(parsing: bytes) {
                #expect("\(read.relay)".utf8.count == 52 && "\(read.endpoint)".utf8.count == 52, "seed \(seed)")
            }
        }
    }

    @Test func registrationKeepsItsTokenToItself() throws {
        let registration = NotificationRegistration(type: .apns, token: "canary-token", appID: "org.example.player", displayName: "Player")
        let shown =
            "\(registration) \(String(reflecting: registration))"
            + {
                var text = ""; dump(registration, to: &text); return text
            }()
        #expect(!shown.contains("canary"))
        #expect(StoredNotification.description(try StoredNotification(registration)).contains("canary") == false)
    }

    @Test func invalidRegistrationsAreRejectedHere() {
        for registration in [
            NotificationRegistration(type: .fcm, appID: "a"), .init(type: .fcm, token: String(repeating: "x", count: 5_000), appID: "a"),
            .init(type: .fcm, token: "x", appID: ""), .init(type: .fcm, token: "x", appID: "a", displayName: "\u{202E}"),
            .init(type: .webPush(publicKey: [4], authSecret: Array(repeating: 0, count: 16)), token: "https://p", appID: "a"),
            .init(type: .webPush(publicKey: [4] + Array(repeating: 0, count: 64), authSecret: []), token: "https://p", appID: "a"),
        ] {
            #expect(throws: NotificationRegistrationError(.invalidRegistration, "")) { try registration.channel() }
        }
    }

    @Test(
        arguments: [
            NotificationType.apns, .apnsSandbox, .fcm, .wns, .polling, .polling(every: .seconds(60)),
            .webPush(publicKey: [4] + Array(repeating: 7, count: 64), authSecret: Array(repeating: 9, count: 16)),
        ]
    )
    func storedRegistrationIsReadUnchanged(type: NotificationType) throws {
        let token = type.pollingInterval == nil ? "a0b1" : ""
        let registration = NotificationRegistration(type: type, token: token, appID: "org.example.player", displayName: "Player")
        let stored = try StoredNotification(registration)
        var json = JSONWriter()
        stored.write(to: &json)
        #expect(try StoredNotification(json: JSONValue(parsing: json.bytes)).registration == registration)
    }
}

extension StoredNotification {
    fileprivate static func description(_ stored: StoredNotification) -> String { "\(stored) \(String(reflecting: stored))" }
}
