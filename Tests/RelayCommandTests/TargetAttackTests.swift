// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Synchronization
import Testing

/// Requests that an unapproved device must not get by its name.
@Suite(.serialized, .timeLimit(.minutes(10))) struct TargetAttackTests {
    /// The requests that apps got, by the name of their device.
    private final class Log: Sendable {
        private let entries = Mutex<[String]>([])
        var all: [String] { entries.withLock { $0 } }
        func add(_ entry: String) { entries.withLock { $0.append(entry) } }
    }

    private func app(_ id: String, _ log: Log, _ device: String) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: id,
            launchHandler: LaunchHandler(schemes: ["https"]) { request in
                log.add("\(device): \(request.uri.text)")
                return .launched
            },
            services: [
                AppService("whoami") { connection, _ in
                    try await connection.respond { _ in ["device": .string(device)] }
                }
            ]
        )
    }

    @Test func deviceNamedLikeAnotherDevicesAppGetsNothing() async throws {
        let account = try await TestAccount()
        let log = Log()
        let desk = try await account.device(named: "Desk")
        let good = try await account.app(app("org.example.good", log, "Python"), on: "Python")
        let listed = try await desk.relay("devices", "--json").json["devices"] as? [[String: Any]] ?? []
        #expect(try await desk.relay("approve", try #require(listed.first?["id"] as? String)).status == 0)
        let evil = try await account.app(app("org.example.evil", log, "Evil"), on: "Python/org.example.good")
        let launched = try await desk.relay("launch", "Python/org.example.good", "https://films.example/?secret")
        #expect(launched.status == 0, "\(launched.errorText)")
        #expect(log.all == ["Python: https://films.example/?secret"])
        let called = try await desk.relay("call", "Python/org.example.good", "whoami")
        #expect(called.text == #"{"device":"Python"}"#, "\(called.errorText)")
        // The device can be addressed by its id.
        let devices = try await desk.relay("devices", "--json").json["devices"] as? [[String: Any]] ?? []
        let id = try #require(devices.first { $0["new"] as? Bool == true }?["id"] as? String)
        #expect(try await desk.relay("launch", "\(id)/org.example.evil", "https://films.example/1").status == 0)
        #expect(log.all.last == "Evil: https://films.example/1")
        _ = (good, evil)
    }

    @Test func newDeviceNamedLikeAKnownOneWithoutAppsGetsNothing() async throws {
        let account = try await TestAccount()
        let log = Log()
        let phone = try await account.device(named: "Phone")
        let desk = try await account.device(named: "Desk")
        let evil = try await account.app(app("org.example.evil", log, "Evil"), on: "Phone")
        for name in ["Phone", "phone", "Phone/org.example.evil"] {
            let refused = try await desk.relay("launch", name, "https://films.example/?secret")
            #expect(refused.status == 2)
            #expect(refused.errorText.contains("the name of a known device"), "\(refused.errorText)")
        }
        #expect(log.all.isEmpty)
        _ = (phone, evil)
    }

    @Test func newDeviceOfTheSameNameGetsNothing() async throws {
        let account = try await TestAccount()
        let log = Log()
        let good = try await account.app(app("org.example.good", log, "TV"), on: "TV")
        let desk = try await account.device(named: "Desk")
        let evil = try await account.app(app("org.example.good", log, "Evil"), on: "tv")
        for name in ["TV", "tv", "TV/org.example.good"] {
            let launched = try await desk.relay("launch", name, "https://films.example/1")
            #expect(launched.status == 0, "\(launched.errorText)")
        }
        #expect(log.all.allSatisfy { $0.hasPrefix("TV: ") } && log.all.count == 3)
        _ = (good, evil)
    }

    @Test func approveAndRevokeInAScriptNeedTheCompleteID() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let evil = try await account.device(named: "Phone")
        let id = try #require(try await evil.relay("whoami", "--json").json["endpoint"] as? String)
        for command in ["approve", "revoke"] {
            for text in ["Phone", String(id.prefix(8)), String(id.prefix(15))] {
                let output = try await desk.relay(command, text, "--json")
                #expect(output.status == 2, "\(output.text)")
                #expect(try code(output) == "idRequired")
            }
        }
        let endpoints = try await desk.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        #expect(endpoints.contains { $0["id"] as? String == id && $0["new"] as? Bool == true })
    }
}
