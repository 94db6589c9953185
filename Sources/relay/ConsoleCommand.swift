// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct ConsoleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: localized("Open the console of this device's agent in a browser."),
        discussion: localized(
            """
            The link works once, within 60 seconds, and only in a browser of this machine. The browser gets it by a file that only this user \
            can read. A confined browser, such as a snap, may not read that file; then use --print.
            """
        )
    )

    @Flag(help: .text("Print the link instead of opening it."))
    var print = false

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        // A program that asks for JSON opens the link itself.
        if print || context.console.isJSON {
            try context.console.print(try await OpenConsole().run(context))
        } else {
            try await OpenConsole().open(context)
        }
    }
}
