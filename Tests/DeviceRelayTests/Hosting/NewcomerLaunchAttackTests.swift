// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// New devices launch as much as they can, at an app that uses the SDK.
@Suite(.timeLimit(.minutes(5))) struct NewcomerLaunchAttackTests {
    private let directory: TemporaryDirectory
    private let launched = CurrentValue<[String]>([])

    init() throws { directory = try TemporaryDirectory() }

    private func world() async throws -> EndpointWorld {
        let app = RemoteSystemAppRegistration(
            appID: "player",
            launchHandler: LaunchHandler(schemes: ["https", "http"]) { [launched] request in
                launched.update { $0.append(request.uri.text) }
                // As an app that repeats a text of its caller.
                return request.uri.text.hasSuffix("/missing") ? .failed(reason: "no item\0\u{1}x") : .launched
            }
        )
        let world = try EndpointWorld(directory, app: app)
        // Nobody else is in the account, so who comes later is new.
        await world.list()
        await world.startInbox()
        await world.connect()
        return world
    }

    private func launch(_ uri: String, _ number: UInt64, by sender: Member, at world: EndpointWorld) async throws -> CommandOutcome {
        let target = try await world.record()
        let command = try SealedCommand.launch(uri, number, by: sender, on: target)
        await world.offered(Blob(command.encoded), from: sender.record)
        let result = try await world.next { message in message.result.flatMap { $0.id == command.header.id ? $0 : nil } }
        return try result.outcome(of: command, by: target)
    }

    /// However many they are, and whether or not the app is the agent.
    @Test func newDevicesTogetherLaunchSixPagesAMinute() async throws {
        let world = try await world()
        var outcomes: [CommandOutcome] = []
        for (index, sender) in [try Member("One"), try Member("Two"), try Member("Three")].enumerated() {
            for number in 1...3 as ClosedRange<UInt64> {
                outcomes.append(try await launch("https://films.example/\(index)/\(number)", number, by: sender, at: world))
            }
        }
        #expect(outcomes.prefix(6).allSatisfy { $0 == .succeeded }, "\(outcomes)")
        let reason = "too many launches: 6 launches a minute are accepted from new devices"
        #expect(outcomes.suffix(3).allSatisfy { $0 == .declined(reason: reason) }, "\(outcomes)")
        #expect(launched.value.count == 6)
        await world.end()
    }

    /// A receipt takes no U+0000. The endpoint goes on.
    @Test func reasonOfAnAppDoesNotStopTheEndpoint() async throws {
        let world = try await world()
        let sender = try Member("One")
        #expect(try await launch("https://films.example/missing", 1, by: sender, at: world) == .failed(reason: "no item\u{1}x"))
        #expect(try await launch("https://films.example/1", 2, by: sender, at: world) == .succeeded)
        await world.end()
    }

    @Test func newDeviceCannotLaunchAPageOfTheLocalNetwork() async throws {
        let world = try await world()
        let sender = try Member("One")
        let pages = ["http://192.168.1.1/reboot", "http://router/", "http://localhost:631/", "https://[fe80::1]/", "http://0x7f.1/"]
        for (index, page) in pages.enumerated() {
            guard case .declined(let reason) = try await launch(page, UInt64(index) + 1, by: sender, at: world) else {
                Issue.record("\(page) was not declined")
                continue
            }
            #expect(reason.contains("relay approve \(sender.id)"))
        }
        #expect(launched.value.isEmpty)
        // They do not count for the rate.
        for number in 11...16 as ClosedRange<UInt64> {
            #expect(try await launch("https://films.example/\(number)", number, by: sender, at: world) == .succeeded)
        }
        await world.end()
    }
}
