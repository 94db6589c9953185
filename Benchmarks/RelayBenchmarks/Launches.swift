// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// Launches through the whole SDK, from the call to the verified receipt.
struct Launches: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var senders = 1
    @Option var targets = 1
    @Option(help: "All together; each pair gets the same part.") var inflight = 1
    @Option var seconds = 3.0

    func run() async throws {
        try await setting.withDirectory { directory in
            let app = RemoteSystemAppRegistration(appID: benchmarkApp, launchHandler: LaunchHandler(schemes: ["https"]) { _ in .launched })
            var (sending, hosting): ([ConnectedDevicesPlatform], [ConnectedDevicesPlatform]) = ([], [])
            for number in 0..<senders { sending.append(try await setting.device("Sender \(number)", in: directory)) }
            for number in 0..<targets {
                let host = try await setting.device("Target \(number)", in: directory)
                try await host.publish(app, for: benchmarkAccount)
                hosting.append(host)
            }
            for sender in sending {
                for host in hosting {
                    await sender.know(host)
                    if setting.direct { await host.confirm(sender) }
                }
            }
            setting.loseRelay()
            let end = ContinuousClock.now + .seconds(seconds * 1.2)
            let begin = ContinuousClock.now + .seconds(seconds * 0.2)
            guard let uri = URL(string: "https://www.example.org/film") else { return }
            let pairs = sending.flatMap { sender in hosting.map { (sender, $0.endpointID) } }
            let samples = try await withThrowingTaskGroup(of: Samples.self) { group in
                for number in 0..<inflight {
                    let (sender, endpoint) = pairs[number % pairs.count]
                    group.addTask {
                        var samples = Samples()
                        while true {
                            let start = ContinuousClock.now
                            guard start < end else { return samples }
                            _ = try await RemoteLauncher(sender).launch(uri, on: .init(endpoint: endpoint, appID: benchmarkApp))
                            if start >= begin { samples.add(ContinuousClock.now - start) }
                        }
                    }
                }
                return try await group.reduce(into: Samples()) { $0.add($1) }
            }
            report([
                "perSecond": Double(samples.count) / seconds,
                "p50Milliseconds": samples.percentile(0.5) * 1e3,
                "p99Milliseconds": samples.percentile(0.99) * 1e3,
            ])
            for platform in sending + hosting { await platform.shutdown() }
        }
    }
}
