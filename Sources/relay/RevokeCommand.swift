// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct RevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: "Shut an endpoint out of the account, for ever."
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: "The endpoint's id, or the beginning of it, as `relay devices --all` prints it.") var endpoint: String

    func run() async throws {
        let context = common.context
        try context.console.print(try await Revoke(target: endpoint).run(context))
    }
}
