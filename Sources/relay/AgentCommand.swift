// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayAgent

struct AgentCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "agent",
        abstract: localized("Make this machine a device: open what other devices launch and answer their app services, until Ctrl-C."),
        discussion: localized("SIGHUP reloads the settings. docs/agent.md describes them."),
        subcommands: [AgentInstallCommand.self, AgentUninstallCommand.self]
    )

    @OptionGroup var common: CommonOptions
    @OptionGroup var settings: AgentOptions
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            localized(
                "Do not stay connected: connect at this interval to fetch what waits. App services are then not answered in between."
            ),
            valueName: "seconds"
        )
    ) var poll: Int?

    func validate() throws {
        if let poll, !(1...86_400).contains(poll) { throw ValidationError("--poll must be 1 to 86400 seconds.") }
    }

    func run() async throws {
        let agent = Agent(configurationPath: settings.config, pollingInterval: poll.map { .seconds($0) })
        try await agent.run(try common.context)
    }
}

struct AgentOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(localized("The file with the settings. Default: agent.yaml in the home, if it exists."), valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"])
    )
    var config: String?
}

struct AgentInstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install",
        abstract: localized("Make your service manager (systemd or launchd) run the agent, now and at each login.")
    )

    @OptionGroup var common: CommonOptions
    @OptionGroup var settings: AgentOptions
    @Flag(help: .text("Print what would be written, and change nothing.")) var print = false

    func run() async throws {
        let context = try common.context
        let installation = Installation(.install, configurationPath: settings.config, printsOnly: print)
        let result = try await installation.run(context, environment: ProcessInfo.processInfo.environment)
        try context.console.print(result)
        // The result already describes the failure.
        guard result.done ?? true else { throw ExitCode(1) }
    }
}

struct AgentUninstallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall",
        abstract: localized("Stop the agent that your service manager runs, and remove it from there.")
    )

    @OptionGroup var common: CommonOptions
    @Flag(help: .text("Print what would be removed, and change nothing.")) var print = false

    func run() async throws {
        let context = try common.context
        let installation = Installation(.uninstall, configurationPath: nil, printsOnly: print)
        try context.console.print(try await installation.run(context, environment: ProcessInfo.processInfo.environment))
    }
}
