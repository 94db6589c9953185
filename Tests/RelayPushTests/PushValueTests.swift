// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import RelayProtocol
import Testing

@testable import RelayPush

@Suite struct PushValueTests {
    @Test(arguments: [
        "https://push.example", "https://push.example/", "https://push.example:8443/base/", "http://localhost:8080", "http://127.0.0.1:1",
        "http://[::1]:1/",
    ])
    func isAProvidersAddress(_ text: String) throws {
        #expect(try #require(ProviderAddress(text)).description.utf8.last != UInt8(ascii: "/"))
    }

    @Test(arguments: [
        "", "push.example", "http://push.example", "http://10.0.0.1", "http://localhost.example", "http://127.0.0.1.example",
        "ftp://localhost",
        "https://user@push.example",
    ])
    func isNoProvidersAddress(_ text: String) {
        #expect(ProviderAddress(text) == nil)
    }

    @Test(arguments: WakePayload.Urgency.allCases)
    func aPayloadIsSmall(_ urgency: WakePayload.Urgency) {
        let wake = Wake.test(1, urgency, expiry: 1)
        #expect(#"{"\#(WakePayload.key)":\#(wake.payload.json)}"#.utf8.count <= WakePayload.maximumBytes)
        #expect(APNsChannel.body(wake).count <= WakePayload.maximumBytes)
        #expect(WNSChannel.body(wake).count <= 5_000)
    }

    @Test func aCredentialShowsNoSecret() {
        let credentials: [PushCredential] = [
            .apns(.init(team: "t", keyID: "k", key: Secret("hidden"), topic: "a")),
            .fcm(.init(project: "p", clientEmail: "e", key: Secret("hidden"))),
            .wns(.init(kind: .appSDK(tenant: "t"), client: "c", secret: Secret("hidden"))),
            .webPush(.init(key: Secret("hidden"), contact: "mailto:a@example.com")),
        ]
        for credential in credentials {
            var text = "\(credential)" + String(reflecting: credential)
            dump(credential, to: &text)
            #expect(text.contains("(secret)"))
            #expect(!text.contains("hidden"))
        }
    }

    @Test func aCredentialMakesAChannelOfItsProvider() async {
        let channels = PushChannels(group: MultiThreadedEventLoopGroup.singleton)
        for (credential, service) in [
            (.apns(.init(team: "t", keyID: "k", key: Secret("x"), topic: "a")), .apns),
            (.fcm(.init(project: "p", clientEmail: "e", key: Secret("x"))), .fcm),
            (.wns(.init(kind: .uwp, client: "c", secret: Secret("x"))), .wns),
            (.webPush(.init(key: Secret("x"), contact: "mailto:a@example.com")), .webPush),
        ] as [(PushCredential, PushService)] {
            let channel = channels.channel(for: credential)
            #expect(channel.service == service)
            // A registration of another type is never sent.
            #expect(await channel.send(.test(1, expiry: 1), to: .polling(interval: nil)).name == "invalid")
            await channel.shutdown()
        }
    }
}
