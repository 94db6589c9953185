// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct FetchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch",
        abstract: "List the folder that another device shares, or bring files from there.",
        discussion: "A transfer that broke off goes on where it was when it is asked for again."
    )

    @OptionGroup var common: CommonOptions
    @Argument(
        help: ArgumentHelp(
            "A device's name, its id or at least the first 4 characters of it; with /APP one app there.",
            valueName: "device[/app]"
        ),
        completion: .devices
    )
    var target: String
    @Argument(help: "A file or folder in the folder that is shared. Default: that folder itself.") var path = ""
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp(
            "Where it goes: a file, a folder that is there, or - for standard output. Default: its own name, here.",
            valueName: "file"
        ),
        completion: .file()
    )
    var output: String?
    @Flag(name: .shortAndLong, help: "Bring a folder with all that is in it; without, it is listed.") var recursive = false
    @Flag(help: "Replace files that are there.") var force = false

    func validate() throws {
        if output?.isEmpty ?? false { throw ValidationError("--output must name a file or folder.") }
        guard output == Fetch.standardOutput else { return }
        if recursive { throw ValidationError("A folder cannot go to standard output: -r needs another --output.") }
        if common.json { throw ValidationError("With --output - the file alone goes to standard output: leave out --json.") }
    }

    func run() async throws {
        let fetch = Fetch(target: target, path: path, output: output, isRecursive: recursive, replaces: force)
        try await fetch.run(common.context)
    }
}
