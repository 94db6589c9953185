// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The main use case on one machine: a relay, a phone and a PC, each with its own processes, keys and directory.
struct Demo: Sendable {
    let relayd: URL
    let directory: URL
    let screen: DemoScreen
    let phone: DemoDevice
    let pc: DemoDevice
    private let photoCount = 12
    private let photoBytes = 8 << 20

    /// - Parameters:
    ///   - relayd: This executable.
    ///   - relay: The command line of the devices.
    ///   - directory: An empty directory; the demo leaves files in it.
    init(relayd: URL, relay: URL, directory: URL) throws {
        self.relayd = relayd
        self.directory = directory
        screen = DemoScreen()
        phone = try DemoDevice("phone", name: "Phone", below: directory, relay: relay, screen: screen)
        pc = try DemoDevice("pc", name: "Living room PC", below: directory, relay: relay, screen: screen)
    }

    /// The URIs that the PC opened, written by its "browser".
    private var pages: URL { directory.appending(path: "opened.txt") }
    private let sentPhoto = "Rome/photo-01.jpg"
    private var inbox: URL { pc.directory.appending(path: "Downloads") }
    private var photos: URL { pc.directory.appending(path: "Pictures") }

    func run() async throws {
        let begin = ContinuousClock.now
        try screen.title("Device Relay: a relay, a phone and a living room PC, each in its own process on this machine.")

        try screen.step("A relay, and a device on it")
        try screen.command("relay", ["relayd", "serve"])
        let serve = try startRelay()
        defer { serve.terminate() }
        try await screen.line("relay", serve.line())
        let link = try await joinLink(from: serve)
        try await pc.run("join", link, "--name", pc.name)

        try screen.step("The PC invites the phone; the phone joins and watches")
        let invited = try await pc.run("invite", maximumLines: 1)
        guard let second = invited.first(where: { $0.contains("#relay=") }) else { throw DemoFailure("`relay invite` printed no link") }
        try await phone.run("join", second.trimmingCharacters(in: .whitespaces), "--name", phone.name)
        let watch = try phone.start("watch", "--json")
        defer { watch.kill() }

        try screen.step("The PC becomes a device that can be launched on; the phone sees it appear")
        try writeSettings()
        var agent = try await startAgent()
        defer { agent.kill() }
        try await seen(on: watch, status: "available")

        try screen.step("Continue on the PC: a launch opens there")
        let film = "https://films.example/42?t=1200"
        try await phone.run("launch", pc.name, film)
        try await opened([film])

        try screen.step("Measure the round trip: a message and its answer, end-to-end encrypted")
        try await phone.run("ping", pc.name, "--count", "5", "--interval", "0.1")

        try screen.step("Photos from a folder of the PC")
        try makePhotos()
        try await phone.run("fetch", "--recursive", pc.name, "Rome", showsProgress: true, maximumLines: 2)
        try comparePhotos()

        try screen.step("The phone sends a photo to the PC")
        try await phone.run("send", phone.directory.appending(path: sentPhoto).path, pc.name)
        try await screen.line(pc.label, agent.line { $0.contains("photo-01.jpg") })
        try compareSent()

        try screen.step("Pull the plug: the PC is killed, and a launch is sent meanwhile")
        try screen.command("pc", ["kill", "-9", "AGENT"])
        agent.kill()
        try await seen(on: watch, status: "unavailable")
        let meanwhile = "https://films.example/43"
        try await phone.run("launch", "--no-wait", pc.name, meanwhile)

        try screen.step("The PC connects again: the waiting launch is handled once")
        agent = try await startAgent()
        try await opened([film, meanwhile])
        try await phone.run("commands")
        // A second delivery would arrive within this time.
        try await Task.sleep(for: .milliseconds(500))
        try await opened([film, meanwhile], isShown: false)

        try await launchWithoutTheRelay(serve, after: [film, meanwhile])
        try summarize(took: begin.duration(to: .now))
    }

    /// Devices that know each other need no relay on one network.
    private func launchWithoutTheRelay(_ serve: DemoProcess, after uris: [String]) async throws {
        try screen.step("Unplug the relay: on one network, the launch still arrives")
        guard try await isOnThisNetwork() else {
            return try screen.note("Left out: on this machine the devices do not hear each other's multicast. `relay doctor` says more.")
        }
        try screen.command("relay", ["kill", "-9", "RELAYD"])
        serve.kill()
        let film = "https://films.example/44"
        try await phone.run("launch", pc.name, film)
        try await opened(uris + [film])
    }

    /// Whether the phone sees the PC on the local network.
    private func isOnThisNetwork() async throws -> Bool {
        struct Report: Decodable {
            struct Check: Decodable {
                var name: String
                var message: String
            }

            var checks: [Check]
        }
        let doctor = try phone.start("doctor", "--json", isShown: false)
        let text = await doctor.finish().output.joined(separator: "\n")
        guard let report = try? JSONDecoder().decode(Report.self, from: Data(text.utf8)) else { return false }
        return report.checks.contains { $0.name == "nearby" && $0.message.contains(pc.name) }
    }

    // MARK: The relay

    private func startRelay() throws -> DemoProcess {
        try DemoProcess(
            relayd,
            [
                "serve", "--listen", "127.0.0.1:0", "--tunnel-listen", "127.0.0.1:0", "--log-level", "warning",
                "--data-directory", directory.appending(path: "relayd").path,
            ],
            environment: ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("RELAYD_") },
            in: directory
        )
    }

    private func joinLink(from serve: DemoProcess) async throws -> String {
        let line = try await serve.line { $0.contains("#relay=") }
        try screen.line("relay", line)
        guard let link = line.split(separator: " ").first(where: { $0.contains("#relay=") }) else {
            throw DemoFailure("the relay printed no join link")
        }
        return String(link)
    }

    // MARK: The PC

    private func writeSettings() throws {
        try FileManager.default.createDirectory(at: photos.appending(path: "Rome"), withIntermediateDirectories: true)
        let settings: [String: Any] = [
            "open": ["command": [relayd.path, "demo", "opened", "--log", pages.path, "{uri}"]],
            "files": ["folder": photos.path],
            "receive": ["folder": inbox.path],
        ]
        // JSON is valid YAML.
        let file = pc.directory.appending(path: "relay/agent.yaml")
        try JSONSerialization.data(withJSONObject: settings, options: [.withoutEscapingSlashes]).write(to: file)
        // The agent rejects a settings file that others can write.
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
    }

    private func startAgent() async throws -> DemoProcess {
        let agent = try pc.start("agent")
        try await screen.line(pc.label, agent.line { $0.contains("ready: ") })
        return agent
    }

    /// Waits until exactly these URIs were opened, and prints the last one.
    private func opened(_ uris: [String], isShown: Bool = true) async throws {
        while true {
            let text = (try? String(contentsOf: pages, encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n").map(String.init)
            guard lines.count <= uris.count else { throw DemoFailure("the PC opened \(lines.count) pages instead of \(uris.count)") }
            if lines == uris { break }
            try await Task.sleep(for: .milliseconds(20))
        }
        if isShown { try screen.seen(pc.label, "opens \(uris.last ?? "")") }
    }

    private func makePhotos() throws {
        for number in 1...photoCount {
            var random = SystemRandomNumberGenerator()
            let words = (0..<photoBytes / 8).map { _ in random.next() }
            let name = "Rome/photo-\(number < 10 ? "0" : "")\(number).jpg"
            try words.withUnsafeBytes { try Data($0).write(to: photos.appending(path: name)) }
        }
    }

    private func comparePhotos() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: photos.appending(path: "Rome").path) {
            let path = "Rome/\(name)"
            guard
                FileManager.default.contentsEqual(
                    atPath: photos.appending(path: path).path,
                    andPath: phone.directory.appending(path: path).path
                )
            else { throw DemoFailure("\(path) is not the same on both sides") }
        }
        try screen.seen(phone.label, "\(photoCount) photos, \(photoCount * photoBytes / 1_048_576) MiB: all bytes equal")
    }

    private func compareSent() throws {
        let (sent, received) = (phone.directory.appending(path: sentPhoto), inbox.appending(path: "photo-01.jpg"))
        guard FileManager.default.contentsEqual(atPath: sent.path, andPath: received.path) else {
            throw DemoFailure("the photo is not the same on both sides")
        }
        try screen.seen(pc.label, "1 photo, \(photoBytes / 1_048_576) MiB: all bytes equal")
    }

    // MARK: The phone's view

    private struct Event: Decodable {
        struct Device: Decodable {
            var name: String
            var status: String
        }

        var event: String
        var device: Device?
    }

    private func seen(on watch: DemoProcess, status: String) async throws {
        while true {
            let line = try await watch.line()
            guard let event = try? JSONDecoder().decode(Event.self, from: Data(line.utf8)), let device = event.device,
                device.name == pc.name
            else { continue }
            guard device.status == status else { continue }
            try screen.seen(phone.label, status == "available" ? "\(device.name) is connected" : "\(device.name) is not connected")
            return
        }
    }

    // MARK: Summary

    private func summarize(took time: Duration) throws {
        try screen.step("Done")
        let seconds = String(format: "%.1f", time / .seconds(1))
        try screen.note("Discovered, launched, pinged, fetched, killed, unplugged, and nothing lost, in \(seconds) s.")
        try screen.note("The relay, the devices and their keys are gone again.")
        try screen.note("")
        try screen.note("The same between two machines:")
        try screen.note("  A  relayd serve --listen 0.0.0.0              (prints a join link)")
        try screen.note("  A  relay join --name pc && relay agent install   (asks for the link)")
        try screen.note("  A  relay invite                               (prints a link for the next device)")
        try screen.note("  B  relay join")
        try screen.note("  B  relay launch pc https://example.org")
    }
}
