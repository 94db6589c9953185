// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct LeaveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "leave",
        abstract: "Take this device out of its account, and destroy its keys."
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = common.context
        try context.console.print(try await Leave().run(context))
    }
}
