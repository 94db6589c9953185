// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct ApproveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve",
        abstract: localized("Confirm a new device, for this device and all others."),
        discussion: localized(
            """
            At a terminal it shows what it found, and asks. Compare the words with those that `relay whoami` prints on the new device. Without a \
            terminal it accepts only an id, because any device can have any name.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            localized("A device's or an endpoint's id, or at least the first 16 characters of it; at a terminal also a name."),
            valueName: "device|endpoint"
        ),
        completion: .newEndpointIDs
    )
    var target: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Approve(target: target, asking: context.console.question).run(context))
    }
}
