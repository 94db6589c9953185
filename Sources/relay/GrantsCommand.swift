// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct GrantsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "grants",
        abstract: localized("Show and change what other devices may do here without a question."),
        subcommands: [GrantsListCommand.self, GrantsAddCommand.self, GrantsRemoveCommand.self],
        defaultSubcommand: GrantsListCommand.self
    )
}

struct GrantsListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: localized("List what devices may do, and since which answer.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await GrantList().run(context))
    }
}

struct GrantsAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: localized("Let a known device do without a question what agent.yaml asks about."),
        discussion:
            localized(
                "It allows nothing that agent.yaml does not ask about: a scheme in `open: {ask: […]}`, one of `relay doctor` that only an installed program opens, or transfers with `receive: {accept: ask}`."
            )
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var device: String?
    @Flag(help: .text("Let all known devices of the account do it.")) var known = false
    @Option(help: ArgumentHelp(localized("Open links of this scheme."), valueName: "scheme")) var scheme: String?
    @Flag(help: .text("Send files, links and texts.")) var transfer = false
    @Option(help: ArgumentHelp(localized("How long: a number and s, m, h or d; at most 90d."), valueName: "time")) var expires: String =
        "90d"

    func validate() throws {
        guard (device == nil) == known else { throw ValidationError("Name a device, or give --known for all known ones.") }
        guard (scheme == nil) == transfer else { throw ValidationError("Give --scheme SCHEME or --transfer.") }
        guard LifeText.duration(expires) != nil else { throw ValidationError("--expires is a number and s, m, h or d, at most 90d.") }
    }

    func run() async throws {
        let context = try common.context
        let add = GrantAdd(device: device, scheme: scheme, life: LifeText.duration(expires))
        try context.console.print(try await add.run(context))
    }
}

struct GrantsRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: localized("Take a grant back: the device is asked about again.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The id of the grant, as `relay grants` prints it.")) var id: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await GrantRemove(id: id).run(context))
    }
}
