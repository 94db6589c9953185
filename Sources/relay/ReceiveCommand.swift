// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct ReceiveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receive",
        abstract: localized("Receive what your other devices send, until Ctrl-C."),
        discussion: localized(
            """
            The agent receives too; its settings say where to. With --visible, strangers on this network can send for ten minutes instead, without an \
            account on either side; you are asked about each transfer, and everyone on the network sees the name of this device meanwhile.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Option(
        help: ArgumentHelp(
            localized("The folder for files; it is created if it does not exist. Default: the current folder."),
            valueName: "folder"
        ),
        completion: .directory
    )
    var into = "."
    @Flag(help: .text("End after the first transfer.")) var once = false
    @Flag(help: .text("Ask before each transfer.")) var ask = false
    @Flag(help: .text("Be visible on this network for ten minutes, and receive from strangers there, each time after a question."))
    var visible = false
    @Option(help: .text("With --visible: the name of this device, if it has no account. Default: the host name.")) var name: String?

    func validate() throws {
        if into.isEmpty { throw ValidationError("--into must name a folder.") }
        if ask, visible { throw ValidationError("--visible asks about each transfer anyway; leave out --ask.") }
        if ask || visible, common.json { throw ValidationError("\(visible ? "--visible" : "--ask") needs a terminal; leave out --json.") }
        if name != nil, !visible { throw ValidationError("--name goes with --visible.") }
        if name?.isEmpty ?? false { throw ValidationError("--name must not be empty.") }
    }

    func run() async throws {
        let context = try common.context
        if visible { return try await ReceiveVisibly(into: into, isOnce: once, name: name).run(context) }
        try await Receive(into: into, isOnce: once, asks: ask).run(context)
    }
}
