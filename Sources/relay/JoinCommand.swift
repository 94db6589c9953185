// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct JoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: localized("Make this machine a device of the account that a link is for."),
        discussion: localized(
            """
            Without a link, or with -, it is read from the terminal, which does not show it, or from standard input. A link among the arguments \
            is visible to other users of this machine, and in the shell's history; quote it, because # begins a comment in a shell. At a terminal \
            the command names the link's account and asks, before this device is in it. A device that has joined this relay before takes the \
            link's address as the relay's new address, and keeps its keys. It joins again only if its login has ended.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("A join link, from `relayd invite` or `relay invite`, or -. It works once.")) var link: String?
    @Option(help: .text("The device's name on your other devices. Default: the host name.")) var name: String?
    @Flag(help: .text("Accept a link to plain HTTP on another machine. Others on the network can then read the traffic.")) var allowHttp =
        false
    @OptionGroup var confirmation: ConfirmationOption

    @Option(
        help: ArgumentHelp(
            localized("A PEM file with the authorities for the relay's certificate, for a relay with a private authority."),
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    func run() async throws {
        let context = try common.context
        let link = try await TypedInput(context.console).secret(link, "Paste the join link; it is not shown:")
        let join = Join(link: link, name: name, allowsPlainHTTP: allowHttp, caFile: caFile, isConfirmed: confirmation.yes)
        try context.console.print(try await join.run(context))
    }
}
