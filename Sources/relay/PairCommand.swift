// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct PairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pair",
        abstract: localized("Pair with another person's device on this network, without an account."),
        discussion: localized(
            """
            One device shows a code and a link with `relay pair`; on the other one `relay pair --enter` reads one of them, from the terminal or from \
            standard input. Then both can send each other files, links and texts while they are on one network, and each asks its person first. \
            `relay unpair` ends it.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Flag(help: .text("Read the code or the link that the other device shows.")) var enter = false
    @Option(help: ArgumentHelp(localized("With --enter: the name of the other device, if several are visible."), valueName: "name"))
    var device: String?
    @Option(help: .text("The name of this device, if it has no account. Default: the host name.")) var name: String?

    func validate() throws {
        if device != nil, !enter { throw ValidationError("--device goes with --enter.") }
        if name?.isEmpty ?? false { throw ValidationError("--name must not be empty.") }
    }

    func run() async throws {
        let context = try common.context
        guard enter else { return try await Pair(name: name).run(context) }
        let input = TypedInput(context.console)
        try context.console.print(try await EnterPairing(name: name, device: device).run(context, input))
    }
}

struct UnpairCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpair",
        abstract: localized("End the pairing with another person's device.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The device's name, its id or at least the first 4 characters of it."), completion: .devices) var device: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Unpair(device).run(context))
    }
}
