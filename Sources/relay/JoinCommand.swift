// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct JoinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "join",
        abstract: "Make this machine a device of the account that a link is for.",
        discussion: """
            Quote the link: a shell would take it apart. A device that has joined the same relay takes a link's address as the relay's new one, \
            and keeps its keys; it joins anew only if its login is over.
            """
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: "A join link, from `relayd invite` or `relay invite`. It works once.") var link: String
    @Option(help: "What your other devices show. Default: the host's name.") var name: String?
    @Flag(help: "Take a link that leads to plain HTTP on another machine, which everybody on the way can read.") var insecure = false

    @Option(
        help: ArgumentHelp(
            "A PEM file of the authorities that the relay's certificate is checked with, for a relay behind a private authority.",
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    func run() async throws {
        let context = common.context
        try context.console.print(try await Join(link: link, name: name, insecure: insecure, caFile: caFile).run(context))
    }
}
