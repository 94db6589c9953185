// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import CryptoExtras
import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayPush

/// A device that does not run gets a launch and an app service call by each push type: a real relay process, devices of the SDK, and a
/// scripted push service.
@Suite(.timeLimit(.minutes(10))) struct WakeEndToEndTests {
    static let appID = ScriptedAPNs.topic

    @Test func appleWakesTheDevice() async throws {
        #expect(try await tokensForApple(port: nil, []) == 1)
    }

    /// A node has the token from the database, where the others find it.
    @Test(.enabled(if: PostgresServer.isPossible)) func appleWakesTheDeviceOfANode() async throws {
        let (server, nodes) = (try await PostgresServer.shared, try RelayNodes(1))
        let store = try await server.makeURI()
        #expect(try await tokensForApple(port: nodes.ports[0], nodes.arguments(0, store: store)) == 1)
        let database = try #require(store.firstMatch(of: /test_\w+/)).output
        #expect(try await server.query("SELECT version FROM push_token", in: String(database)) == "1")
    }

    /// Wakes a device by Apple's service.
    /// - Returns: With how many tokens.
    private func tokensForApple(port: Int?, _ arguments: [String]) async throws -> Int {
        let apns = try await ScriptedAPNs(.real)
        let key = try write(apns.key.pemRepresentation)
        let home = try await WakeHome(apns.http, addresses: ["apns": apns.http.origin], port: port, arguments: arguments)
        try await home.add(
            "apns",
            "--signing-key",
            key,
            "--key-id",
            ScriptedAPNs.keyID,
            "--team-id",
            ScriptedAPNs.team,
            "--topic",
            ScriptedAPNs.topic
        )
        try await home.launchAndCall(.init(type: .apns, token: ScriptedAPNs.token(1), appID: Self.appID)) {
            apns.now.accepted.compactMap { request in
                let body = try? JSONSerialization.jsonObject(with: Data(request.body)) as? [AnyHashable: Any]
                return body.flatMap { ConnectedDevicesNotification(parsing: $0) }
            }
        }
        #expect(apns.now.violations.isEmpty)
        await apns.stop()
        return apns.now.tokens.count
    }

    /// A relay with a credential for FCM, and the credential's file.
    private func home(_ fcm: ScriptedFCM) async throws -> (WakeHome, file: String) {
        let account = [
            "project_id": ScriptedFCM.project, "client_email": ScriptedFCM.email,
            "private_key": try ScriptedFCM.key.get().pemRepresentation,
        ]
        let file = try write(String(decoding: try JSONEncoder().encode(account), as: UTF8.self))
        let home = try await WakeHome(fcm.http, addresses: ["fcm": fcm.http.origin, "fcmToken": fcm.http.origin + "/token"])
        try await home.add("fcm", "--service-account", file)
        return (home, file)
    }

    @Test func googleWakesTheDevice() async throws {
        let fcm = try await ScriptedFCM(.real)
        let (home, _) = try await home(fcm)
        try await home.launchAndCall(.init(type: .fcm, token: "registration", appID: Self.appID)) {
            fcm.read { state in
                state.accepted.compactMap { ($0["data"] as? [String: String]).flatMap { ConnectedDevicesNotification(parsing: $0) } }
            }
        }
        await fcm.stop()
    }

    /// The operator removes a credential and adds another one while a launch waits.
    @Test func addedCredentialWakesTheDevice() async throws {
        let fcm = try await ScriptedFCM(.real)
        let (home, file) = try await home(fcm)
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await pc.platform.publish(pc.app(), for: pc.account)
        try await pc.platform.notifications.register(.init(type: .fcm, token: "registration", appID: Self.appID), for: pc.account)
        try await phone.confirm(pc)
        try await home.removeCredentials()
        await pc.platform.shutdown()
        let system = try await phone.sees("PC") { $0.presence.state == .unavailable && !$0.presence.isWakeable }
        let command = try await RemoteLauncher(phone.platform).submit(try #require(URL(string: "film:1")), on: .init(system))
        #expect(fcm.read { $0.accepted.isEmpty })
        try await home.add("fcm", "--service-account", file)
        for await status in command.statuses where status.wake?.channel == "fcm" { break }
        #expect(fcm.read { $0.accepted.count } == 1)
        await phone.platform.shutdown()
        await fcm.stop()
    }

    @Test(arguments: [false, true]) func microsoftWakesTheDevice(isAppSDK: Bool) async throws {
        let wns = try await ScriptedWNS()
        let secret = try write(ScriptedWNS.secret)
        let addresses = [
            "wns": wns.http.origin, "wnsPackageToken": wns.http.origin + "/accesstoken.srf", "wnsAppSDKToken": wns.http.origin,
        ]
        let home = try await WakeHome(wns.http, addresses: addresses)
        let kind = isAppSDK ? ["--tenant", ScriptedWNS.tenant, "--client-id", ScriptedWNS.client] : ["--package-sid", ScriptedWNS.client]
        try await home.add(["wns", "--secret-file", secret] + kind)
        try await home.launchAndCall(.init(type: .wns, token: "\(wns.http.origin)/w/?token=1", appID: Self.appID)) {
            // A toast hands its argument to the app; a raw notification its body.
            wns.now.accepted.compactMap { request in
                let text = String(decoding: request.body, as: UTF8.self)
                let argument = text.firstMatch(of: /launch=["']([^"']*)["']/).map { String($0.1).replacing("&quot;", with: "\"") }
                return ConnectedDevicesNotification(parsing: argument ?? text)
            }
        }
        #expect(wns.now.violations.isEmpty)
        await wns.stop()
    }

    @Test func webPushWakesTheDevice() async throws {
        let push = try await ScriptedWebPush(.real)
        let key = try write(push.key.pemRepresentation)
        let home = try await WakeHome(push.http, addresses: [:], arguments: ["--push-private-addresses"])
        try await home.add("web-push", "--contact", "mailto:admin@example.com", "--signing-key", key)
        let type = NotificationType.webPush(
            publicKey: Array(push.subscriber.publicKey.x963Representation),
            authSecret: push.secret
        )
        try await home.launchAndCall(.init(type: type, token: "\(push.http.origin)/push/1", appID: Self.appID)) {
            push.now.contents.compactMap { ConnectedDevicesNotification(parsing: $0) }
        }
        await push.stop()
    }

    /// Without the setting, a device cannot have the relay send requests into its own network.
    @Test func privateAddressIsNotAsked() async throws {
        let push = try await ScriptedWebPush(.real)
        let key = try write(push.key.pemRepresentation)
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        let errors = try FileHandle(forWritingTo: log)
        let home = try await WakeHome(push.http, addresses: [:], arguments: ["--log-level", "notice"], errors: errors)
        try await home.add("web-push", "--contact", "mailto:admin@example.com", "--signing-key", key)
        let type = NotificationType.webPush(
            publicKey: Array(push.subscriber.publicKey.x963Representation),
            authSecret: push.secret
        )
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        try await pc.platform.publish(pc.app(), for: pc.account)
        let registration = NotificationRegistration(type: type, token: "\(push.http.origin)/push/1", appID: Self.appID)
        try await pc.platform.notifications.register(registration, for: pc.account)
        try await pc.confirm(phone)
        await pc.platform.shutdown()
        let system = try await phone.sees("PC") { $0.status != .available }
        let command = try await RemoteLauncher(phone.platform).submit(try #require(URL(string: "film:1")), on: .init(system))
        for await status in command.statuses where status == .accepted { break }
        try await eventually { (try? String(contentsOf: log, encoding: .utf8))?.contains("A push was rejected.") == true }
        #expect(push.http.received.isEmpty)
        // The launch waits all the same.
        try await pc.restart()
        _ = try await command.outcome()
        await pc.platform.shutdown()
        await phone.platform.shutdown()
        await push.stop()
    }

    private func write(_ text: String) throws -> String {
        let file = FileManager.default.temporaryDirectory.appending(path: "credential-\(UUID().uuidString)")
        try Data(text.utf8).write(to: file)
        return file.path
    }
}

extension TestTime {
    /// The present time, for services that check the relay's signatures.
    static var real: TestTime { TestTime(Int64(Date().timeIntervalSince1970 * 1_000)) }
}
