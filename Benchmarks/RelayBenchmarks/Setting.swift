// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol
import Synchronization

let benchmarkApp = "org.example.player"
let benchmarkAccount = ConnectedDevicesAccount(id: "me")

func fail(_ text: String) -> Never {
    FileHandle.standardError.write(Data("RelayBenchmarks: \(text)\n".utf8))
    exit(1)
}

/// Prints a JSON object on one line.
func report(_ values: [String: Double]) {
    let members = values.sorted { $0.key < $1.key }.map { "\"\($0)\": \($1.isFinite ? $1 : -1)" }
    say("{\(members.joined(separator: ", "))}")
}

func say(_ line: String) {
    // The reader may have exited.
    guard (try? FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))) != nil else { exit(1) }
}

/// The URL and identity of a relay.
struct RelayTarget: Sendable {
    var url: URL
    var id: RelayID
    var address: RelayAddress
}

/// A user with an account at the relay. The token is not bound to a key, so all endpoints can share it.
struct Person: Codable, Sendable {
    var token: String
}

/// The options of every measurement.
struct Setting: ParsableArguments {
    @Option(help: "The relay's URL.") var relay: String
    @Option(help: "The relay's id.") var relayID: String
    @Option(help: "A file with a JSON array of persons, each with a `token`.") var people: String
    @Option(help: "Which of them it is about; an account holds only so many endpoints.") var person = 0
    /// Once the devices know each other, it prints a line, and goes on with the next line of its input.
    @Flag(help: "Use the local network alone; the caller ends the relay when it is told.")
    var direct = false

    func target() throws -> RelayTarget {
        guard let url = URL(string: relay), let id = RelayID(relayID) else { throw ValidationError("no relay") }
        return RelayTarget(url: url, id: id, address: try RelayAddress(url))
    }

    func persons() throws -> [Person] {
        let persons = try JSONDecoder().decode([Person].self, from: Data(contentsOf: URL(filePath: people)))
        guard !persons.isEmpty else { throw ValidationError("nobody is in \(people)") }
        return persons
    }

    func thePerson() throws -> Person {
        let persons = try persons()
        guard persons.indices.contains(person) else { throw ValidationError("there is no person \(person)") }
        return persons[person]
    }

    /// A joined device with the whole SDK.
    func device(_ name: String, in directory: URL) async throws -> ConnectedDevicesPlatform {
        let platform = try platform(name, in: directory)
        try await platform.start()
        try await platform.accounts.add(benchmarkAccount)
        return platform
    }

    /// A device that is not started. One of the same name goes on with its storage.
    func platform(_ name: String, in directory: URL) throws -> ConnectedDevicesPlatform {
        let target = try target()
        let home = directory.appending(path: name)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        var settings = ConnectedDevicesPlatformSettings(
            relay: target.url,
            relayID: target.id,
            storageDirectory: home.appending(path: "storage"),
            device: DeviceDescription(name: name, kind: .desktop, platform: .linux)
        )
        settings.systemKey = SystemKeyFile(path: home.appending(path: "system.key").path)
        settings.nearby.mode = direct ? .known : .off
        let tokens = StaticAccessTokenProvider(AccessToken(try thePerson().token))
        return ConnectedDevicesPlatform(settings: settings, accessTokens: tokens)
    }

    /// Lets the caller end the relay, if only direct paths are measured.
    func loseRelay() {
        guard direct else { return }
        report(["ready": 1])
        guard readLine() != nil else { fail("nobody has ended the relay") }
    }

    /// Runs a closure with a temporary directory.
    func withDirectory<Result>(_ body: (URL) async throws -> Result) async throws -> Result {
        let directory = FileManager.default.temporaryDirectory.appending(path: "relay-benchmarks-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        return try await body(directory)
    }
}

extension ConnectedDevicesPlatform {
    var endpointID: EndpointID {
        guard let id = accounts.endpoint(of: benchmarkAccount) else { fail("a device has no endpoint") }
        return id
    }

    /// Waits until the other device's app is listed, and confirms that device.
    func know(_ other: ConnectedDevicesPlatform) async {
        let id = other.endpointID
        for await systems in remoteSystems().snapshots where systems.contains(where: { $0.apps.contains { $0.endpoint == id } }) { break }
        await confirm(other)
    }

    /// Waits until the other device is known, which may publish nothing, and confirms it.
    func confirm(_ other: ConnectedDevicesPlatform) async {
        while !(await confirm(other.endpointID, for: benchmarkAccount)) { try? await Task.sleep(for: .milliseconds(10)) }
    }
}

/// Resumes its continuation once.
final class Once: Sendable {
    private let continuation: Mutex<CheckedContinuation<Void, Never>?>

    init(_ continuation: CheckedContinuation<Void, Never>) { self.continuation = Mutex(continuation) }

    func resume() {
        let continuation = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        continuation?.resume()
    }
}

/// Measured durations.
struct Samples {
    private var durations: [Duration] = []

    mutating func add(_ duration: Duration) { durations.append(duration) }
    mutating func add(_ others: Samples) { durations += others.durations }
    var count: Int { durations.count }

    /// In seconds.
    /// - Parameter part: 0.5 for the median.
    func percentile(_ part: Double) -> Double {
        let sorted = durations.sorted()
        guard !sorted.isEmpty else { return .nan }
        return sorted[Int(Double(sorted.count - 1) * part)].inSeconds
    }
}

extension Duration {
    var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
