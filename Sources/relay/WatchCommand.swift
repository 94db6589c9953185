// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: localized("Print devices as they appear (+), change (~) and disappear (-), until Ctrl-C.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws { try await Watch().run(try common.context) }
}
