// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayTesting
import Foundation
import RelayProtocol
import Synchronization
import Testing

@testable import RelayAgent

/// The work of commands on a device that the test has made, as an agent makes its own: without a command line, a console or signals.
@Suite(.timeLimit(.minutes(10))) struct DeviceCommandTests {
    /// A phone for the commands, a PC with the agent's services, and a device that nobody has approved.
    private final class World: Sendable {
        let relay: TestRelay
        let phone: LocalDevice
        let tablet: ConnectedDevicesPlatform
        let folder: String

        init(_ relay: TestRelay, _ folder: String) async throws {
            (self.relay, self.folder) = (relay, folder)
            try FileManager.default.createDirectory(atPath: "\(folder)/shared/inner", withIntermediateDirectories: true)
            try Data("0123456789".utf8).write(to: URL(filePath: "\(folder)/shared/one.txt"))
            try Data("inner".utf8).write(to: URL(filePath: "\(folder)/shared/inner/two.txt"))
            let app = RemoteSystemAppRegistration(
                appID: AgentConfiguration.appID,
                displayName: "Agent",
                launchHandler: LaunchHandler(schemes: ["https"]) { _ in .launched },
                services: [
                    PingService.service, EchoService.service,
                    FilesService(folder: SharedFolder(root: "\(folder)/shared"), devices: nil).service,
                ]
            )
            let platform = try await relay.platform(named: "Phone")
            _ = try await relay.platform(named: "PC", publishing: app)
            tablet = try await relay.platform(named: "Tablet", isConfirmed: false)
            let home = Home("\(folder)/home")
            let settings = await relay.settings(named: "Phone")
            try home.store(
                Membership(
                    relay: try #require(settings.relay).absoluteString,
                    relayID: try #require(settings.relayID),
                    name: "Phone",
                    kind: .phone
                )
            )
            phone = LocalDevice(platform: platform, account: relay.account, home: home)
            for await systems in platform.remoteSystems().snapshots where systems.contains(where: { $0.displayName == "PC" }) { break }
            for await endpoints in platform.endpointChanges(for: relay.account) where endpoints.count == 3 { break }
        }
    }

    private func withWorld(_ body: (World) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "commands-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await withTestRelay { try await body(try await World($0, folder)) }
    }

    /// What a command has reported.
    private final class Reports<Element: Sendable>: Sendable {
        private let elements = Mutex<[Element]>([])
        var all: [Element] { elements.withLock { $0 } }
        func add(_ element: Element) { elements.withLock { $0.append(element) } }
    }

    private func code(_ body: () async throws -> some Any) async -> String? {
        do {
            _ = try await body()
            return nil
        } catch {
            return AgentError(error).code
        }
    }

    private func launch(_ target: String = "PC", wait: Duration? = .seconds(30)) throws -> Launch {
        try Launch(target: target, uri: "https://films.example/\u{E4}", fallback: nil, preferred: [], wait: wait, life: nil)
    }

    @Test func oneDeviceServesSeveralCommandsAtOnce() async throws {
        try await withWorld { world in
            let phone = world.phone
            async let devices = Devices(showsAll: true).run(on: phone)
            async let launched = launch().run(on: phone)
            async let invited = Invite().run(on: phone)
            async let pings = pings(on: phone, count: 2)
            let (all, launch, invitation) = (try await devices, try await launched, try await invited)
            #expect(all.devices.contains { $0.name == "PC" } && all.endpoints?.count == 3 && all.notes.isEmpty)
            #expect(launch.status == "succeeded" && launch.deviceName == "PC" && launch.uri == "https://films.example/%C3%A4")
            #expect((try? JoinLink(parsing: invitation.link, plainHTTP: .allowed)) != nil && invitation.notes.count == 2)
            #expect(try await pings.map(\.event) == [.answer, .answer, .summary])
            // The device is still there.
            let list = try await CommandList().run(on: phone)
            #expect(list.commands.map(\.id) == [launch.command] && list.commands.first?.status == "succeeded")
            #expect(list.current && list.problem == nil && list.notes.isEmpty)
        }
    }

    private func pings(on local: LocalDevice, count: Int?) async throws -> [Ping.Event] {
        let reports = Reports<Ping.Event>()
        let ping = Ping(target: "PC", count: count, interval: .milliseconds(1), timeout: .seconds(30))
        try await ping.run(on: local) { reports.add($0) }
        return reports.all
    }

    @Test func failureIsThrown() async throws {
        try await withWorld { world in
            let phone = world.phone
            #expect(await code { try await launch("TV").run(on: phone) } == "remoteSystemUnavailable")
            #expect(await code { try await launch("PC/no.app").run(on: phone) } == "appUnavailable")
            let launched = try await launch(wait: nil).run(on: phone)
            _ = try await phone.platform.commands(for: phone.account).first?.outcome()
            #expect(await code { try await Cancel(id: launched.command).run(on: phone) } == "ended")
            #expect(await code { try await Cancel(id: "019a7c3e-0000-7000-8000-000000000000").run(on: phone) } == "notFound")
            let call = Call(target: "PC", service: "none", timeout: .seconds(30))
            #expect(await code { try await call.run(on: phone, sending: [:]) } == "appServiceUnavailable")
        }
    }

    /// What can be refused without a device is refused before there is one.
    @Test func wrongArgumentNeedsNoDevice() async throws {
        for (uri, fallback) in [("films.example", nil), ("https://films.example/", "a b"), ("https://films.example/\u{7}", nil)] {
            let wrong = await code { try Launch(target: "PC", uri: uri, fallback: fallback, preferred: [], wait: nil, life: nil) }
            #expect(wrong == "invalidURI", "\(uri)")
        }
        #expect(await code { try Cancel(id: "1") } == "idInvalid")
        for name in ["", "a\u{1B}[31m", "\u{202E}a", String(repeating: "a", count: 1_000)] {
            #expect(await code { try Rename(name: name) } == "nameInvalid")
        }
    }

    @Test func messagesAreAnsweredInOrder() async throws {
        try await withWorld { world in
            let call = Call(target: "PC", service: EchoService.name, timeout: .seconds(30))
            let one = try await call.run(on: world.phone, sending: ["n": 0])
            #expect(one.answer.contains(#""message":{"n":0}"#) && one.deviceName == "PC" && one.app == AgentConfiguration.appID)
            let reports = Reports<String>()
            let left = Mutex([1, 2, 3])
            try await call.run(
                on: world.phone,
                sending: { left.withLock { $0.isEmpty ? nil : ["n": .int(Int64($0.removeFirst()))] } },
                report: { reports.add($0.answer) }
            )
            #expect(reports.all.count == 3)
            for (number, answer) in zip(1..., reports.all) { #expect(answer.contains(#""message":{"n":\#(number)}"#)) }
        }
    }

    @Test func filesAreListedWrittenAndDownloaded() async throws {
        try await withWorld { world in
            func fetch(_ path: String, _ output: String?, isRecursive: Bool = false) async throws -> (
                results: [Fetch.Result], bytes: [UInt8]
            ) {
                let (results, bytes) = (Reports<Fetch.Result>(), Reports<[UInt8]>())
                let fetch = Fetch(target: "PC", path: path, output: output, isRecursive: isRecursive, replaces: false)
                try await fetch.run(on: world.phone, write: { bytes.add($0) }, report: { results.add($0) })
                return (results.all, bytes.all.flatMap(\.self))
            }
            #expect(try await fetch("", nil).results.map { $0.entries?.map(\.name).sorted() } == [["inner", "one.txt"]])
            let written = try await fetch("one.txt", Fetch.standardOutput)
            #expect(written.results.isEmpty && written.bytes == Array("0123456789".utf8))
            let downloaded = try await fetch("", "\(world.folder)/copy", isRecursive: true).results
            #expect(downloaded.map(\.path).sorted() == ["inner/two.txt", "one.txt"])
            #expect(FileManager.default.contents(atPath: "\(world.folder)/copy/inner/two.txt") == Data("inner".utf8))
            // What is left out is told in the same way.
            mkfifo("\(world.folder)/shared/pipe", 0o600)
            let left = try #require(try await fetch("", nil).results.first)
            #expect(left.leftOut?.count == left.notes.count)
        }
    }

    /// Connects to the service `files`, and fetches over a stream with a token; `nil` if the stream is not accepted.
    private func read(
        _ path: String,
        _ entry: RemoteEntry,
        with token: [UInt8],
        from service: BulkConnection
    ) async -> (bytes: [UInt8], problem: FileServiceMessages.Problem?)? {
        let bytes = Reports<[UInt8]>()
        guard let stream = try? await service.openStream(token) else { return nil }
        let problems = try? await BulkReceiver.receiving(over: stream) { receiver in
            let output = BulkOutput(size: entry.size) { bytes.add($0) }
            return try await RemoteContent(service.connection, receiver).receive([(path, entry)], into: output)
        }
        return problems.map { (bytes.all.flatMap(\.self), $0[0]) }
    }

    private func files(of platform: ConnectedDevicesPlatform) async throws -> (BulkConnection, token: [UInt8]) {
        var found: RemoteSystemApp?
        for await systems in platform.remoteSystems().snapshots {
            found = systems.first { $0.displayName == "PC" }?.apps.first
            if found != nil { break }
        }
        let service = AppServiceInfo(name: FileServiceMessages.serviceName, appID: AgentConfiguration.appID)
        let opened = try await platform.openBulkService(service, on: RemoteSystemConnectionRequest(try #require(found)))
        return (opened, try await opened.connection.call(FileServiceMessages.Content()).token)
    }

    /// A token of the service `files` is good for one stream, of the device that got it, while its connection is open.
    @Test func tokenIsGoodForOneStream() async throws {
        try await withWorld { world in
            let laptop = try await world.relay.platform(named: "Laptop")
            let (phone, token) = try await files(of: world.phone.platform)
            let entry = try await RemoteFolder(connection: phone.connection).entry("one.txt")
            let (other, otherToken) = try await files(of: laptop)
            #expect(await read("one.txt", entry, with: token, from: other) == nil)
            #expect(await read("one.txt", entry, with: token, from: phone)?.bytes == Array("0123456789".utf8))
            #expect(await read("one.txt", entry, with: token, from: phone) == nil)
            #expect(await read("one.txt", entry, with: [UInt8](repeating: 1, count: 32), from: phone) == nil)
            #expect(await read("one.txt", entry, with: [1], from: phone) == nil)
            other.connection.close()
            #expect(await read("one.txt", entry, with: otherToken, from: other) == nil)
            let (again, late) = try await files(of: laptop)
            #expect(await read("one.txt", entry, with: otherToken, from: again) == nil)
            #expect(await read("one.txt", entry, with: late, from: again)?.bytes.count == 10)
        }
    }

    /// A file that is not the listed one any more is not sent.
    @Test func changedFileIsNoticed() async throws {
        try await withWorld { world in
            let (phone, token) = try await files(of: world.phone.platform)
            let entry = try await RemoteFolder(connection: phone.connection).entry("one.txt")
            try Data("9876543210".utf8).write(to: URL(filePath: "\(world.folder)/shared/one.txt"))
            let answer = try #require(await read("one.txt", entry, with: token, from: phone))
            #expect(answer.bytes.isEmpty && answer.problem == .changed)
        }
    }

    @Test func onlyAPersonWhoIsAskedMayNameADevice() async throws {
        try await withWorld { world in
            let phone = world.phone
            #expect(await code { try await Approve(target: "Tablet").run(on: phone) } == "idRequired")
            #expect(await code { try await Revoke(target: "Tablet").run(on: phone) } == "idRequired")
            let asked = Reports<[String]>()
            func answer(_ isYes: Bool) -> Question {
                { lines, _ in
                    asked.add(lines)
                    return isYes
                }
            }
            #expect(await code { try await Approve(target: "Tablet", asking: answer(false)).run(on: phone) } == "cancelled")
            #expect(await code { try await Revoke(target: "Tablet", asking: answer(false)).run(on: phone) } == "cancelled")
            #expect(await code { try await Verify(target: "Tablet", asking: answer(false)).run(on: phone) } == "cancelled")
            let id = try #require(world.tablet.accounts.endpoint(of: world.relay.account))
            #expect(asked.all.count == 3 && asked.all.allSatisfy { $0.contains { $0.contains(DisplayText.grouped("\(id)")) } })

            // Without a question, the code is only shown.
            let shown = try await Verify(target: "Tablet").run(on: phone)
            #expect(shown.code.split { " -".contains($0) }.count == 10 && !shown.verified)
            let approved = try await Approve(target: "tablet", asking: answer(true)).run(on: phone)
            #expect(approved.approved.map(\.id) == ["\(id)"] && approved.notes.isEmpty)
            #expect(try await Approve(target: "\(id)").run(on: phone).notes == ["it is already known"])
            let revoked = try await Revoke(target: "\(id)").run(on: phone)
            #expect(revoked.revoked.map(\.id) == ["\(id)"] && revoked.sent && revoked.notes.isEmpty)
            #expect(await code { try await Revoke(target: "Phone", asking: answer(true)).run(on: phone) } == "isLocal")
        }
    }

    @Test func renamedDeviceIsToldOfItsNamesake() async throws {
        try await withWorld { world in
            let own = try await Rename(name: "Pocket").run(on: world.phone)
            #expect(own.published && own.notes.isEmpty)
            #expect(try world.phone.home.membership().name == "Pocket")
            let same = try await Rename(name: "pc").run(on: world.phone)
            #expect(same.notes.count == 1 && same.notes.first?.contains("another device is called") == true)
        }
    }

    /// A command without an end ends with its task, and the device stays.
    @Test func cancelledTaskEndsItsCommandOnly() async throws {
        try await withWorld { world in
            let phone = world.phone
            let (events, continuation) = AsyncStream.makeStream(of: Watch.Event.self)
            let watching = Task { try await Watch().run(on: phone) { continuation.yield($0) } }
            for await event in events where event.event == .enumerationCompleted { break }
            watching.cancel()
            try await watching.value
            let (answers, answered) = AsyncStream.makeStream(of: Ping.Event.self)
            let pinging = Task {
                try await Ping(target: "PC", count: nil, interval: .milliseconds(1), timeout: .seconds(30)).run(on: phone) {
                    answered.yield($0)
                }
                answered.finish()
            }
            for await _ in answers { break }
            pinging.cancel()
            var last: Ping.Event?
            for await event in answers { last = event }
            #expect(last?.event == .summary && last?.received ?? 0 > 0)
            try await pinging.value
            #expect(try await launch().run(on: phone).status == "succeeded")
        }
    }

    /// Without the relay, what is known is still told, and a revocation is kept.
    @Test func commandsWorkWithoutTheRelay() async throws {
        try await withWorld { world in
            let phone = world.phone
            _ = try await launch().run(on: phone)
            let id = try #require(world.tablet.accounts.endpoint(of: world.relay.account))
            await world.relay.stop()
            let offline = LocalDevice(platform: phone.platform, account: phone.account, home: phone.home)
            for await state in phone.platform.connectionStates(for: phone.account) where !state.isConnected { break }
            let revoked = try await Revoke(target: "\(id)").run(on: offline)
            #expect(revoked.revoked.map(\.id) == ["\(id)"] && !revoked.sent)
            #expect(revoked.notes.count == 1 && revoked.notes.first?.contains("does not have it yet") == true)
            let list = try await CommandList().run(on: offline)
            #expect(list.commands.count == 1)
            try await world.relay.start()
        }
    }
}
