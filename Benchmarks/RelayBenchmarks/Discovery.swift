// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import NIOCore
import NIOPosix
import RelayProtocol

/// Measures the time from an endpoint's publish to its `added` event at a watcher of another device, and from the death
/// of its process to the event that reports it as unavailable.
struct Discovery: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var rounds = 20

    func run() async throws {
        try await setting.withDirectory { directory in
            let watcher = try await setting.device("Watcher", in: directory)
            var events = watcher.remoteSystems().makeAsyncIterator()
            var (added, away) = (Samples(), Samples())
            let executable = URL(filePath: CommandLine.arguments[0])
            for round in 0..<rounds {
                let name = "Lingerer \(round)"
                let (process, input, output) = (Process(), Pipe(), Pipe())
                process.executableURL = executable
                process.arguments = [
                    "lingerer", "--relay", setting.relay, "--relay-id", setting.relayID, "--people", setting.people,
                    "--person", "\(setting.person)", "--name", name,
                ]
                (process.standardInput, process.standardOutput) = (input, output)
                try process.run()
                // The endpoint has connected and not yet published.
                _ = output.fileHandleForReading.availableData
                input.fileHandleForWriting.write(Data("\n".utf8))
                while let event = await events.next() {
                    if case .added(let system) = event, system.displayName == name { break }
                }
                let seen = Date.now
                let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
                guard let published = Double(line.trimmingCharacters(in: .whitespacesAndNewlines)) else { fail("no time: \(line)") }
                added.add(.seconds(seen.timeIntervalSince1970 - published))
                let start = ContinuousClock.now
                kill(process.processIdentifier, SIGKILL)
                while let event = await events.next() {
                    if case .updated(let system) = event, system.displayName == name, system.status != .available { break }
                    if case .removed = event { break }
                }
                away.add(ContinuousClock.now - start)
                process.waitUntilExit()
            }
            report([
                "addedP50Milliseconds": added.percentile(0.5) * 1e3,
                "addedP99Milliseconds": added.percentile(0.99) * 1e3,
                "awayP50Milliseconds": away.percentile(0.5) * 1e3,
                "awayP99Milliseconds": away.percentile(0.99) * 1e3,
            ])
            await watcher.shutdown()
        }
    }
}

/// An endpoint in its own process. It reports that it is connected, publishes at the next line of input, and prints when it began to.
struct Lingerer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(shouldDisplay: false)

    @OptionGroup var setting: Setting
    @Option var name: String

    func run() async throws {
        let (target, person) = (try setting.target(), try setting.thePerson())
        let endpoint = LightEndpoint(name, at: target, person: person, on: MultiThreadedEventLoopGroup.singleton.next())
        await endpoint.connect()
        let registration = Blob<BlobKinds.AppRegistration>(try await endpoint.currentRegistration().encoded)
        say("connected")
        _ = readLine()
        let began = Date.now.timeIntervalSince1970
        await endpoint.require { .publish(.init(ref: $0, registration: registration)) }
        say("\(began)")
        while readLine() != nil {}
    }
}
