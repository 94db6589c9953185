// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import Foundation
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayPush

/// The scripted providers, checked with clients that share nothing with this project.
@Suite(.timeLimit(.minutes(5))) struct IndependentClientTests {
    private let time = TestTime(Int64(Date().timeIntervalSince1970 * 1_000))

    @Test(.enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has the packages"))
    func scriptedProvidersServeOtherClients() async throws {
        let (apns, fcm, wns) = (try await ScriptedAPNs(time), try await ScriptedFCM(time), try await ScriptedWNS())
        let webPush = try await ScriptedWebPush(time)
        let folder = FileManager.default.temporaryDirectory.appending(path: "push-clients-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        func authority(_ server: ScriptedServer) throws -> String {
            let file = folder.appending(path: "\(server.port).pem")
            try Data(server.certificate).write(to: file)
            return file.path
        }
        guard case .wns(let channel) = wns.channel("1") else { return }
        let subscription: [String: Any] = [
            "endpoint": "\(webPush.http.origin)/push/1",
            "keys": [
                "p256dh": Base64.url.encode(Array(webPush.subscriber.publicKey.x963Representation)),
                "auth": Base64.url.encode(webPush.secret),
            ],
        ]
        let given: [String: [String: Any]] = [
            "apns": [
                "origin": apns.http.origin, "ca": try authority(apns.http), "key": apns.key.pemRepresentation, "keyID": ScriptedAPNs.keyID,
                "team": ScriptedAPNs.team, "topic": ScriptedAPNs.topic, "devices": (0..<30).map(ScriptedAPNs.token),
            ],
            "fcm": [
                "origin": fcm.http.origin, "ca": try authority(fcm.http),
                "account": [
                    "type": "service_account", "project_id": ScriptedFCM.project, "client_email": ScriptedFCM.email,
                    "private_key": try ScriptedFCM.key.get().pemRepresentation, "token_uri": "\(fcm.http.origin)/token",
                ],
            ],
            "wns": [
                "origin": wns.http.origin, "ca": try authority(wns.http), "client": ScriptedWNS.client, "secret": ScriptedWNS.secret,
                "tenant": ScriptedWNS.tenant, "channel": channel.exposed,
            ],
            "webPush": [
                "ca": try authority(webPush.http), "subscription": subscription, "content": "When I grow up, I want to be a watermelon",
                "contact": "mailto:admin@example.com", "key": Base64.url.encode(Array(webPush.key.rawRepresentation)),
                "otherKey": Base64.url.encode(Array(P256.Signing.PrivateKey().rawRepresentation)),
            ],
        ]
        let input = folder.appending(path: "input.json")
        try JSONSerialization.data(withJSONObject: given).write(to: input)
        #expect(try await PythonScript("push-clients.py", [input.path]).end() == 0)
        #expect(apns.now.accepted.count == 30)
        #expect(apns.now.violations.isEmpty)
        #expect(apns.now.accepted.map(\.concurrency).max().map { $0 > 1 } == true)
        #expect(fcm.read { $0.accepted.count } == 1)
        #expect(wns.now.accepted.count == 2)
        #expect(wns.now.violations == ["chunked", "chunked"])
        #expect(webPush.now.contents == ["When I grow up, I want to be a watermelon"])
        for server in [apns.http, fcm.http, wns.http, webPush.http] { await server.stop() }
    }
}
