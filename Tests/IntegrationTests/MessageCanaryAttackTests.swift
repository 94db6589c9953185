// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// What devices say to each other is put through every path of a real relay that logs all it can. The relay has none of it in clear.
@Suite(.timeLimit(.minutes(10))) struct MessageCanaryAttackTests {
    @Test func contentOfDevicesIsNotLoggedStoredOrCounted() async throws {
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        let port = try await RelaydProcess().port
        let home = try await TestHome(
            arguments: ["--log-level", "trace", "--metrics-listen", "127.0.0.1:\(port)"],
            relayErrors: try FileHandle(forWritingTo: log)
        )
        var canaries = Canaries()
        func canary(_ name: String) -> String {
            let secret = "canary-" + UUID().uuidString.lowercased()
            canaries.add(name, secret)
            return secret
        }
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let answer = canary("the answer of a service")
        let opened = Log<String>()
        var app = player(log: opened) { request in request.uri.text.contains("decline") ? .declined(reason: "not now") : .launched }
        app.services = [
            AppService("echo") { connection, _ in try await connection.respond { _ in ["text": .string(answer)] } }
        ]
        try await pc.platform.publish(app, for: pc.account)
        try await pc.confirm(phone)
        let system = try await phone.sees("PC") { !$0.apps.isEmpty }
        let (target, service) = (RemoteSystemConnectionRequest(system), AppServiceInfo(name: "echo", appID: app.appID))
        let launcher = RemoteLauncher(phone.platform)

        // To a device that runs.
        let (first, declined) = (canary("a launched URI"), canary("a declined URI"))
        _ = try await launcher.launch(try url("https://films.example/\(first)"), on: target)
        await #expect(throws: RemoteLaunchError.self) { _ = try await launcher.launch(try url("film:decline-\(declined)"), on: target) }
        let (request, message) = (canary("a request"), canary("a stateless message"))
        let answered = try await phone.platform.withAppService(service, on: target) { try await $0.send(["text": .string(request)]) }
        #expect(answered == ["text": .string(answer)])
        let reply = try await phone.platform.sendStatelessMessage(["text": .string(message)], to: service, on: target)
        #expect(reply == ["text": .string(answer)])

        // To one that sleeps, so that the relay stores it.
        await pc.platform.suspend()
        _ = try await phone.sees("PC") { $0.status != .available }
        let waiting = canary("a URI that waits")
        let command = try await launcher.submit(try url("https://films.example/\(waiting)"), on: target)
        for await status in command.statuses where status == .accepted { break }
        let metrics = try await SignInBrowser.request("GET", "http://127.0.0.1:\(port)/metrics").text
        var sightings = canaries.sightings(in: metrics, of: "the metrics")
        sightings += try canaries.sightings(below: home.relayd.directory)
        await pc.platform.resume()
        _ = try await command.outcome()
        #expect(await opened.entries.count == 3)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        #expect(try await home.relayd.stop() == 0)
        sightings += try canaries.sightings(below: home.relayd.directory)
        let text = try Data(contentsOf: log)
        sightings += canaries.sightings(in: text, of: "the log")
        #expect(Set(sightings).map(\.description).sorted() == [])
        // The log has something, and the search finds what is there: the names of devices are in the directory.
        #expect(text.count > 1_000)
        var names = Canaries()
        names.add("the app", app.appID)
        #expect(try !names.sightings(below: home.relayd.directory).isEmpty)
    }
}
