// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// Prints, for each group, the median of each measurement and its ratio to the first one.
@main
enum RelayProtocolBenchmarks {
    static func main() throws {
        let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 21
        for (title, measurements) in try valueBenchmarks() + frameBenchmarks() + controlBenchmarks() + launchBenchmarks() {
            print("\(title), median of \(rounds) rounds")
            let results = try medians(of: measurements, rounds: rounds)
            for (measurement, nanoseconds) in zip(measurements, results) {
                let name = measurement.name.padding(toLength: 48, withPad: " ", startingAt: 0)
                let time = String(format: "%10.0f ns", nanoseconds)
                let ratio = String(format: "%8.2f x", nanoseconds / results[0])
                let speed = measurement.bytes.map { String(format: "%8.1f GB/s", Double($0) / nanoseconds) } ?? ""
                print("  \(name)\(time)\(ratio)\(speed)")
            }
        }
    }
}
