// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct RenameCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rename",
        abstract: localized("Give this device another name."),
        discussion: localized(
            "Other devices show it once the relay has it: at once, or on the next connection. A running agent uses the new name."
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The name that other devices show.")) var name: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Rename(name: name).run(context))
    }
}
