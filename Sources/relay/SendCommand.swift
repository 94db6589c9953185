// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: localized("Send files, folders, links and texts to another device."),
        // The device is the last of the words.
        usage:
            "relay send [--home <directory>] [--profile <profile>] [--json] [--no-agent] [<file> ...] [--text <text> ...] [--name <name>] [--visible] <device[/app]>",
        discussion: localized(
            """
            The other device receives with `relay receive` or `relay agent`. A lost connection does not end a transfer, and an interrupted command
            continues when it is run again. Nothing there is replaced: a second file of the same name gets a number.
            A device without any pairing receives from you while `relay receive --visible` runs there; you are asked first, because nothing proves whose \
            it is.
            """
        )
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            localized(
                "Files, folders and URIs to send, or - for standard input; and last the device: its name, its id or at least the first 4 characters of it; with /APP one of its apps."
            ),
            valueName: "file"
        ),
        completion: .file()
    )
    var words: [String] = []
    @Option(help: .text("A text to send; may be repeated.")) var text: [String] = []
    @Option(help: .text("The name of standard input as a file. Without it, a text of at most 64 KiB is sent as a text.")) var name: String?

    @Flag(help: .text("Send to a device that is visible on this network, whoever it belongs to, without a question.")) var visible = false

    func validate() throws {
        guard let target = words.last else { throw ValidationError("Name the device, as the last word.") }
        let items = words.dropLast()
        if items.isEmpty, text.isEmpty { throw ValidationError("Say what to send to '\(target)': relay send FILE \(target)") }
        if items.filter({ $0 == Send.standardInput }).count > 1 { throw ValidationError("- may be given once.") }
        if items.contains("") { throw ValidationError("A file's name is empty.") }
        if name != nil, !items.contains(Send.standardInput) { throw ValidationError("--name is for standard input; write - too.") }
    }

    func run() async throws {
        let send = Send(items: words.dropLast(), texts: text, target: words.last ?? "", name: name, isVisible: visible)
        try await send.run(try common.context)
    }
}
