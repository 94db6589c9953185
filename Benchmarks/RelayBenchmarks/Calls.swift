// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// Calls of an app service through the whole SDK: a message of 128 bytes and an equal answer.
struct Calls: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var inflight = 1
    @Option var seconds = 3.0
    @Option(help: "So many calls, one after the other, in place of a time.") var count: Int?

    func run() async throws {
        try await setting.withDirectory { directory in
            let (caller, connection) = try await setting.pair(in: directory)
            let message: ValueSet = ["Body": .data(Bytes.filled(128))]
            if let count {
                for _ in 0..<count { _ = try await connection.send(message) }
                report(["calls": Double(count)])
                connection.close()
                return await caller.shutdown()
            }
            let end = ContinuousClock.now + .seconds(seconds * 1.2)
            let begin = ContinuousClock.now + .seconds(seconds * 0.2)
            let samples = try await withThrowingTaskGroup(of: Samples.self) { group in
                for _ in 0..<inflight {
                    group.addTask {
                        var samples = Samples()
                        var start = ContinuousClock.now
                        while start < end {
                            _ = try await connection.send(message)
                            let now = ContinuousClock.now
                            if start >= begin { samples.add(now - start) }
                            start = now
                        }
                        return samples
                    }
                }
                return try await group.reduce(into: Samples()) { $0.add($1) }
            }
            report([
                "callsPerSecond": Double(samples.count) / seconds,
                "p50Microseconds": samples.percentile(0.5) * 1e6,
                "p99Microseconds": samples.percentile(0.99) * 1e6,
            ])
            connection.close()
            await caller.shutdown()
        }
    }
}

/// A bulk transfer from an app service: answers of a fixed size, with several requests in flight.
struct Bulk: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var size = 256 << 10
    @Option(help: "In all, in MiB.") var total = 1_024
    @Option(help: "Requests at once.") var ahead = 4

    func run() async throws {
        try await setting.withDirectory { directory in
            let (caller, connection) = try await setting.pair(in: directory)
            let count = (total << 20) / size
            let begin = ContinuousClock.now
            let received = try await withThrowingTaskGroup(of: Int.self) { group in
                for lane in 0..<ahead {
                    group.addTask { [size] in
                        var received = 0
                        for _ in stride(from: lane, to: count, by: ahead) {
                            let answer = try await connection.send(["Count": .int(Int64(size))])
                            received += answer["Body"]?.data?.count ?? 0
                        }
                        return received
                    }
                }
                return try await group.reduce(0, +)
            }
            let took = (ContinuousClock.now - begin).inSeconds
            guard received == count * size else { fail("\(received) bytes came, not \(count * size)") }
            report(["megabytesPerSecond": Double(received) / took / 1e6, "bytes": Double(received)])
            connection.close()
            await caller.shutdown()
        }
    }
}

enum Bytes {
    static func filled(_ count: Int) -> [UInt8] { Array(repeating: 0x78, count: count) }
}

extension Setting {
    /// A serving device, and a connection to it from another device. The service echoes, or answers with the requested number of bytes.
    func pair(in directory: URL) async throws -> (ConnectedDevicesPlatform, AppServiceConnection) {
        let large = Bytes.filled(1 << 20)
        let app = RemoteSystemAppRegistration(
            appID: benchmarkApp,
            services: [
                AppService("echo") { connection, _ in
                    try await connection.respond { request in
                        guard let count = request.message["Count"]?.int else { return request.message }
                        return ["Body": .data(Array(large.prefix(Int(clamping: count))))]
                    }
                }
            ]
        )
        let caller = try await device("Caller", in: directory)
        let host = try await device("Host", in: directory)
        try await host.publish(app, for: benchmarkAccount)
        await caller.know(host)
        // A direct path needs that both know each other.
        if direct { await host.confirm(caller) }
        loseRelay()
        // The caller publishes nothing. The host knows it because it was listed when the host joined.
        let connection = try await caller.openAppService(
            AppServiceInfo(name: "echo", appID: benchmarkApp),
            on: .init(endpoint: host.endpointID, appID: benchmarkApp)
        )
        hosts.append(host)
        return (caller, connection)
    }
}

/// Keeps the hosts alive until the process ends.
nonisolated(unsafe) private var hosts: [ConnectedDevicesPlatform] = []
