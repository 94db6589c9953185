// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct AgentCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agent",
        abstract: "Make this machine a device: open what others launch, answer their app services, until Ctrl-C."
    )

    @OptionGroup var common: CommonOptions
    @Option(
        help: ArgumentHelp("Its settings. Default: agent.yaml in the home, if there is one.", valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"])
    )
    var config: String?

    func run() async throws { try await Agent(configurationPath: config).run(common.context) }
}
