// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: localized("Remove this device from its account, end its login, and destroy its keys."),
        aliases: ["logout"]
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Leave().run(context))
    }
}
