// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct CommandsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "commands",
        abstract: localized("List the launches that this device has sent.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        let list = try await CommandList().run(context)
        context.console.noteLastKnown(list.problem)
        try context.console.print(list)
    }
}
