// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct CopyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: localized("Put this machine's clipboard on the clipboard of another device.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var target: String
    @Argument(help: .text("- to copy standard input instead.")) var input: String?

    func validate() throws {
        if let input, input != "-" { throw ValidationError("To copy a text, pipe it: echo TEXT | relay copy \(target) -") }
    }

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Copy(target: target, readsInput: input != nil).run(context))
    }
}

struct PasteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paste",
        abstract: localized("Take the clipboard of another device to this machine's clipboard."),
        discussion: localized("The agent of the other device must permit it: `clipboard: all` in its settings.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var target: String
    @Flag(help: .text("Print the text instead.")) var print = false

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Paste(target: target, prints: print).run(context))
    }
}
