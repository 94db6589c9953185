// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct ReceiveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receive",
        abstract: "Receive what your other devices send, until Ctrl-C.",
        discussion: "The agent receives too; its settings say where to."
    )

    @OptionGroup var common: CommonOptions
    @Option(
        help: ArgumentHelp("The folder for files; it is created if it does not exist. Default: the current folder.", valueName: "folder"),
        completion: .directory
    )
    var into = "."
    @Flag(help: "End after the first transfer.") var once = false
    @Flag(help: "Ask before each transfer.") var ask = false

    func validate() throws {
        if into.isEmpty { throw ValidationError("--into must name a folder.") }
        if ask, common.json { throw ValidationError("--ask needs a terminal; leave out --json.") }
    }

    func run() async throws { try await Receive(into: into, isOnce: once, asks: ask).run(try common.context) }
}
