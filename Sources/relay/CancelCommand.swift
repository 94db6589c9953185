// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel",
        abstract: localized("Cancel a launch that has not been handled yet.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The id that `relay launch` or `relay commands` printed.")) var id: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Cancel(id: id).run(context))
    }
}
