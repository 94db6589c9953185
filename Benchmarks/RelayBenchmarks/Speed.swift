// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import RelayProtocol

/// The current speed of the machine: the time in which one core verifies a P-256 signature.
struct Speed: ParsableCommand {
    @Option var seconds = 0.2

    func run() throws {
        let message = Bytes.filled(128)
        let key = P256SigningKey()
        let signature = try key.signature(for: message)
        let end = ContinuousClock.now + .seconds(seconds)
        var samples = Samples()
        while ContinuousClock.now < end {
            let begin = ContinuousClock.now
            for _ in 0..<10 where !key.publicKey.isValid(signature, for: message) { fail("a signature does not hold") }
            samples.add((ContinuousClock.now - begin) / 10)
        }
        report(["checkMicroseconds": samples.percentile(0.5) * 1e6])
    }
}
