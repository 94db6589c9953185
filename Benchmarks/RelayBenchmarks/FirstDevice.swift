// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// Measures the time from the start of a platform until it sees another device on the local network, without the relay.
struct FirstDevice: AsyncParsableCommand {
    @OptionGroup var setting: Setting
    @Option var rounds = 20

    func run() async throws {
        guard setting.direct else { throw ValidationError("give --direct") }
        try await setting.withDirectory { directory in
            let host = try await setting.device("Host", in: directory)
            let app = RemoteSystemAppRegistration(appID: benchmarkApp, launchHandler: LaunchHandler(schemes: ["https"]) { _ in .launched })
            try await host.publish(app, for: benchmarkAccount)
            var watcher = try await setting.device("Watcher", in: directory)
            await watcher.know(host)
            await host.confirm(watcher)
            setting.loseRelay()
            var samples = Samples()
            for _ in 0..<rounds {
                await watcher.shutdown()
                let begin = ContinuousClock.now
                watcher = try setting.platform("Watcher", in: directory)
                try await watcher.start()
                for await systems in watcher.remoteSystems(matching: [.discoveryType(.proximal)]).snapshots {
                    if !systems.isEmpty { break }
                }
                samples.add(ContinuousClock.now - begin)
            }
            report(["p50Milliseconds": samples.percentile(0.5) * 1e3, "p99Milliseconds": samples.percentile(0.99) * 1e3])
            for platform in [watcher, host] { await platform.shutdown() }
        }
    }
}
