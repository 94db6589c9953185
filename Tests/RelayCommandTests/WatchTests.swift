// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct WatchTests {
    @Test func devicesAreListedForPeopleAndForPrograms() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "Living room"))
        let none = try await desk.relay("devices")
        #expect(none.status == 0)
        #expect(none.output.isEmpty)
        let host = try await tv.host("--app", "com.example.player", "--name", "Player", "--scheme", "HTTPS")
        let id = try #require(try await tv.relay("whoami", "--json").json["device"] as? String)
        let text = try await desk.relay("devices")
        #expect(text.status == 0)
        #expect(text.error.isEmpty)
        #expect(text.output.count == 2)
        #expect(text.output.first?.hasPrefix("NAME               KIND     STATUS") == true)
        let line = try #require(text.output.last)
        #expect(line.hasPrefix("Living room (new)  desktop  Online for "))
        #expect(line.hasSuffix("Player  \(id.prefix(8))"))
        #expect(try await desk.relay("approve", id).status == 0)
        #expect(try await desk.relay("devices").output.last?.hasPrefix("Living room  desktop  Online for ") == true)
        let devices = try await desk.relay("devices", "--json").json["devices"] as? [[String: Any]] ?? []
        #expect(devices.count == 1)
        #expect(devices.first?["id"] as? String == id)
        #expect(devices.first?["status"] as? String == "available")
        let apps = devices.first?["apps"] as? [[String: Any]]
        #expect(apps?.first?["id"] as? String == "com.example.player")
        #expect(apps?.first?["schemes"] as? [String] == ["https"])
        // A device lists itself only with `--all`.
        #expect(try await (tv.relay("devices", "--json").json["devices"] as? [Any])?.isEmpty == true)
        let all = try await tv.relay("devices", "--all", "--json").json
        #expect((all["devices"] as? [[String: Any]])?.first?["local"] as? Bool == true)
        #expect((all["endpoints"] as? [[String: Any]])?.count == 2)
        _ = host
    }

    @Test func watchReportsAddedAndRemovedDevices() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let (watch, words) = (try desk.start("watch", "--json"), try desk.start("watch"))
        _ = try await watch.line { $0.contains("enumerationCompleted") }
        let host = try await tv.agent()
        let added = try JSON.object(try await watch.line { $0.contains(#""event":"added""#) })
        #expect((added["device"] as? [String: Any])?["name"] as? String == "TV")
        #expect(try await words.line().hasPrefix("+ TV"))
        host.send(SIGTERM)
        _ = await host.finish()
        let gone = try JSON.object(try await watch.line { $0.contains(#""status":"unavailable""#) })
        #expect(gone["event"] as? String == "updated")
        #expect((gone["device"] as? [String: Any])?["reason"] as? String == "shutdown")
        #expect(try await words.line { $0.contains("Switched off") }.hasPrefix("~ TV"))
        // A device that joins is shown at once, although it publishes no app.
        let radio = try await account.device(named: "Radio")
        let joined = try JSON.object(try await watch.line { $0.contains(#""event":"joined""#) })
        #expect((joined["endpoint"] as? [String: Any])?["name"] as? String == "Radio")
        #expect(try await words.line { $0.contains("Radio") }.contains("not started yet"))
        _ = radio
        #expect(try await tv.relay("leave").status == 0)
        #expect(try await watch.line { $0.contains(#""event":"removed""#) }.contains("TV"))
        #expect(try await words.line { $0.hasPrefix("-") }.contains("TV"))
        watch.send(SIGINT)
        words.send(SIGTERM)
        #expect(await watch.finish().status == 0)
        #expect(await words.finish().status == 0)
    }

    @Test func hostWaitsForItsRelayAndEndsWhenItIsRevoked() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        _ = try await account.relay.stop()
        let host = try tv.start("host", "--json")
        _ = try await host.errorLine { $0.contains("not connected") }
        _ = try await account.relay.start()
        _ = try await host.line { $0.contains(#""event":"hosting""#) }
        let endpoint = try #require(try await tv.relay("whoami", "--json").json["endpoint"] as? String)
        #expect(try await desk.relay("revoke", endpoint).status == 0)
        let ended = await host.finish()
        #expect(ended.status == 3)
        #expect(try (ended.json["error"] as? [String: Any])?["code"] as? String == "endpointRevoked")
    }

    @Test func hostEndsWhenItsOutputIsClosed() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try tv.startForOneLine("host", "--json")
        _ = try await host.line()
        // The launch is not accepted, because it could not be shown.
        #expect(try await desk.relay("launch", "TV", "https://films.example/1", "--wait", "1").status != 0)
        #expect(await host.finish().error == ["1"])
    }

    @Test func disconnectedHostCanBeStopped() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        _ = try await account.relay.stop()
        let host = try tv.start("host")
        _ = try await host.errorLine { $0.contains("not connected") }
        host.send(SIGTERM)
        #expect(await host.finish().status == 0)
    }
}
