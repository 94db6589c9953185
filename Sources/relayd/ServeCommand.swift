// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayComposition
import RelayServer

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the relay until SIGTERM or SIGINT.",
        discussion: """
            Prints one line with the relay's id and URLs when it is ready. Settings come from flags, then the environment, then the file.
            Make an account with `relayd account add`, and let devices in with `relayd invite`.
            """
    )

    @OptionGroup var settings: ConfigurationOptions

    func run() async throws {
        try await runRelay(settings.read()) { configuration, key, metrics, logger in
            let store = try SQLiteStore(directory: configuration.dataDirectory)
            return try await Composition(configuration, store: store, key: key, metrics: metrics, logger: logger).parts
        }
    }
}
