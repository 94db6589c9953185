// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation

/// The measurements of `scripts/bench-peers` at a running relay. Each command prints its results as one JSON object.
@main struct RelayBenchmarks: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "RelayBenchmarks",
        abstract: "Measure a relay that is running.",
        subcommands: [
            Accounts.self, Tunnels.self, Crowd.self, RelayLaunches.self, Calls.self, Launches.self, Bulk.self, Discovery.self,
            FirstDevice.self,
            Lingerer.self, Sleepers.self, Speed.self, PublicKeyWork.self, TokenChecks.self,
        ]
    )
}
