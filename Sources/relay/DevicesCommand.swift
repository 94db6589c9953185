// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices",
        abstract: localized("List the account's other devices that publish an app.")
    )

    @OptionGroup var common: CommonOptions
    @Flag(help: .text("Also list this device, and every endpoint, with or without an app.")) var all = false

    func run() async throws {
        let context = try common.context
        let list = try await Devices(showsAll: all).run(context)
        context.console.noteLastKnown(list.problem)
        try context.console.print(list)
    }
}
