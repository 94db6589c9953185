// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: localized("Find out why the relay or a device cannot be reached, and what to do.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(localized("A device to check: its name or id; with /APP one of its apps."), valueName: "device[/app]"),
        completion: .devices
    )
    var target: String?

    func run() async throws {
        let context = try common.context
        let result = try await Doctor(target: target).run(context)
        try context.console.print(result)
        // The result already describes the failure.
        guard result.exit == 0 else { throw ExitCode(result.exit) }
    }
}
