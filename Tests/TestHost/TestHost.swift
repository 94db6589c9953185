// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A device as a process of its own, for tests that kill it: takes every launch, prints `got URI`, and answers when it is told `go`. Its app
/// services echo, keep their requests, or do not even take the connection.
///
/// Arguments: relay URL, relay id, directory, then optionally the app's id, and the body of the push notification for which it starts.
@main struct TestHost {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4, let relay = URL(string: arguments[1]), let relayID = RelayID(arguments[2]) else { exit(2) }
        let directory = URL(filePath: arguments[3])
        var settings = ConnectedDevicesPlatformSettings(
            relay: relay,
            relayID: relayID,
            storageDirectory: directory.appending(path: "storage"),
            device: DeviceDescription(name: directory.lastPathComponent, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: directory.appending(path: "system.key").path)
        let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: JoinLinkAccessTokenProvider(clientID: "org.example.test"))
        let lines = Lines()
        let app = RemoteSystemAppRegistration(
            appID: arguments.count > 4 ? arguments[4] : "org.example.player",
            launchHandler: LaunchHandler(schemes: ["https", "film"]) { request in
                say("got \(request.uri.text)")
                await lines.next()
                return .launched
            },
            services: [
                AppService("echo") { connection, _ in try await connection.respond { $0.message } },
                AppService("never") { connection, _ in
                    for await request in connection.requests {
                        say("asked")
                        await withCheckedContinuation { (_: CheckedContinuation<Void, Never>) in _ = request }
                    }
                },
                AppService("mute") { _, _ in
                    say("opened")
                    await withCheckedContinuation { (_: CheckedContinuation<Void, Never>) in }
                },
            ]
        )
        let account = ConnectedDevicesAccount(id: "me")
        try platform.host(app, for: account)
        if arguments.count > 5, let notification = ConnectedDevicesNotification(parsing: arguments[5]) {
            Task { await platform.process(notification) }
        }
        try await platform.start()
        try await platform.publish(app, for: account)
        say("ready")
        let input = AsyncStream<Void> { continuation in
            Thread.detachNewThread {
                while readLine() != nil { continuation.yield() }
                continuation.finish()
            }
        }
        for await _ in input { await lines.add() }
        await platform.shutdown()
    }

    static func say(_ text: String) {
        try? FileHandle.standardOutput.write(contentsOf: Data("\(text)\n".utf8))
    }
}

/// One line on standard input lets one handler go on.
actor Lines {
    private var count = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func add() {
        if waiting.isEmpty { count += 1 } else { waiting.removeFirst().resume() }
    }

    func next() async {
        if count > 0 {
            count -= 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }
}
