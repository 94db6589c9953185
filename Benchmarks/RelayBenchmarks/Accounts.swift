// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import Logging
import RelayIssuer
import RelayProtocol

/// Creates accounts, and prints an invitation code for each.
struct Accounts: AsyncParsableCommand {
    @Option(help: "The relay's data directory.") var dataDirectory: String
    @Option var relay: String
    @Option var relayID: String
    @Option var count: Int

    func run() async throws {
        let issuer = try Issuer.open(
            dataDirectory,
            settings: .init(origins: [relay], audience: relayID),
            now: { Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000)) },
            logger: Logger(label: "benchmarks") { _ in SwiftLogNoOpLogHandler() }
        )
        for number in 0..<count {
            let subject = try await issuer.createUser(name: "Person \(number)")
            say(try await issuer.invite(subject: subject).exposed)
        }
        try issuer.close()
    }
}
