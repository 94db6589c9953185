// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find out what is in the way, to the relay or to a device, and what to do about it."
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp("A device to talk to: its name or id; with /APP one app there.", valueName: "device[/app]"),
        completion: .devices
    )
    var target: String?

    func run() async throws {
        let context = common.context
        let result = await Doctor(target: target).run(context)
        try context.console.print(result)
        // The result already describes the failure.
        guard result.exit == 0 else { throw ExitCode(result.exit) }
    }
}
