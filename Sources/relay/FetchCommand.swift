// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct FetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch",
        abstract: localized("List the folder that another device shares, or fetch files from it."),
        discussion: localized("An interrupted transfer continues when the command is run again.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .device, completion: .devices) var target: String
    @Argument(help: .text("A file or folder in the shared folder. Default: the shared folder itself.")) var path = ""
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            localized(
                "The destination: a file, an existing folder, or - for standard output. Default: the same name in the current folder."
            ),
            valueName: "file"
        ),
        completion: .file()
    )
    var output: String?
    @Flag(name: .shortAndLong, help: .text("Fetch a folder with all its contents. Without -r a folder is listed.")) var recursive = false
    @Flag(help: .text("Replace existing files.")) var force = false

    func validate() throws {
        if output?.isEmpty ?? false { throw ValidationError("--output must name a file or folder.") }
        guard output == Fetch.standardOutput else { return }
        if recursive { throw ValidationError("-r cannot write a folder to standard output; give another --output.") }
        if common.json { throw ValidationError("--output - writes only the file to standard output; leave out --json.") }
    }

    func run() async throws {
        let fetch = Fetch(target: target, path: path, output: output, isRecursive: recursive, replaces: force)
        try await fetch.run(try common.context)
    }
}
