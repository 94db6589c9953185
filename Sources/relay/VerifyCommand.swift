// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: localized("Compare a code with another device, and confirm that device."),
        discussion: localized(
            """
            Run it on both devices, each with the name of the other. Both show the same ten words if no third device is between them. At a terminal it asks \
            whether the words are the same, and confirms the other device. Without a terminal, or with --json, it only prints the words.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(localized("A device's name or id, or an endpoint's id."), valueName: "device|endpoint"),
        completion: .newEndpointIDs
    )
    var target: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Verify(target: target, asking: context.console.question).run(context))
    }
}
