// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct HostCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "host",
        abstract: localized("Receive launches from other devices: print and answer each one, until Ctrl-C.")
    )

    @OptionGroup var common: CommonOptions
    @Option(help: .text("A URI scheme to accept, such as https; may be repeated. Default: http and https.")) var scheme: [String] = []
    @Option(help: .text("The app's id.")) var app = "org.device-relay.cli"
    @Option(help: .text("The app's name for people.")) var name = "relay host"
    @Option(help: .text("The answer to each launch.")) var answer = Host.Answer.launched

    func run() async throws {
        let host = Host(schemes: scheme.isEmpty ? ["http", "https"] : scheme, appID: app, name: name, answer: answer)
        try await host.run(try common.context)
    }
}

extension Host.Answer: ExpressibleByArgument {}
