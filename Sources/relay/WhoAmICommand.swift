// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct WhoAmICommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "whoami",
        abstract: localized("Print what this device is.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try WhoAmI().run(context))
    }
}
