// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct NearbyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "nearby",
        abstract: localized("List the devices that are seen on this network."),
        discussion: localized(
            """
            These are devices that this one knows or was paired with, while their agent runs, and those that somebody has made visible with \
            `relay pair` or `relay receive --visible`. Nothing proves what a visible device says of itself.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Flag(help: .text("Print devices as they appear (+), change (~) and disappear (-), until Ctrl-C.")) var watch = false

    func run() async throws {
        let context = try common.context
        guard !watch else { return try await Nearby().watch(context) }
        try context.console.print(try await Nearby().run(context))
    }
}
