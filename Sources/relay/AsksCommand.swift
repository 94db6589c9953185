// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct AsksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "asks",
        abstract: localized("Answer what other devices ask this one: links that open after a question, files, new devices."),
        subcommands: [AsksListCommand.self, AsksAnswerCommand.self],
        defaultSubcommand: AsksListCommand.self
    )
}

struct AsksListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: localized("List what waits for an answer."))

    @Flag(help: .text("Go on, and print the list after each change. Meanwhile a person counts as present, and is asked."))
    var follow = false
    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        if follow { try await AskList().follow(context) } else { try context.console.print(try await AskList().run(context)) }
    }
}

struct AsksAnswerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "answer",
        abstract: localized("Answer a question."),
        discussion:
            localized(
                "`always` also answers the next ones of this device, for 90 days: see `relay grants`. A new device is approved by `relay approve`."
            )
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The id of the question, as `relay asks` prints it.")) var id: String
    @Argument(help: .text("once, always or no.")) var answer: AskReply.Word
    @Option(
        help: ArgumentHelp(
            localized("The program that opens the link, of those that `relay asks` lists. Default: the first one."),
            valueName: "id"
        )
    )
    var handler: String?

    func run() async throws {
        let context = try common.context
        try context.console.print(try await AskReply(id: id, word: answer, handler: handler).run(context))
    }
}

extension AskReply.Word: ExpressibleByArgument {}
