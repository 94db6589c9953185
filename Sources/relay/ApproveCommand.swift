// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct ApproveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve",
        abstract: "Confirm a new device, for this device and all others.",
        discussion: "Compare the ids that it prints with those that `relay whoami` prints on the new device."
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            "A device's name or id, or an endpoint's id; of ids at least the first 4 characters.",
            valueName: "device|endpoint"
        ),
        completion: .devices
    )
    var target: String

    func run() async throws {
        let context = common.context
        try context.console.print(try await Approve(target: target).run(context))
    }
}
