// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct RevokeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke",
        abstract: localized("Revoke a device, or one endpoint of it, for ever."),
        discussion:
            localized(
                "At a terminal it shows what it found, and asks. Without a terminal it accepts only an id, because any device can have any name."
            )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            localized("A device's or an endpoint's id, or at least the first 16 characters of it; at a terminal also a name."),
            valueName: "device|endpoint"
        ),
        completion: .deviceIDs
    )
    var target: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Revoke(target: target, asking: context.console.question).run(context))
    }
}
