// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// What a program says of its commands (`--experimental-dump-help`).
struct DescribedCommand: Decodable {
    struct Argument: Decodable {
        struct Name: Decodable { var name: String }
        var kind: String
        var names: [Name]?

        var isHelp: Bool { names?.contains { ["h", "help", "version"].contains($0.name) } ?? false }
    }

    var commandName: String
    var arguments: [Argument]?
    var subcommands: [DescribedCommand]?

    /// The command that is meant if none is named, by the command's whole name. Programs do not say all of them.
    static let usual = [
        "relay asks": "list", "relay grants": "list", "relayd": "serve", "relayd account": "list", "relayd account key": "list",
        "relayd app": "list", "relayd backup": "make", "relayd endpoint": "list", "relayd node": "list",
    ]

    static func program(_ name: String) async throws -> DescribedCommand {
        let process = Process()
        process.executableURL = Project.products.appending(path: name)
        process.arguments = ["--experimental-dump-help"]
        let text = try await ProcessRun.run(process).output
        struct Dump: Decodable { var command: DescribedCommand }
        return try JSONDecoder().decode(Dump.self, from: Data(text.utf8)).command
    }

    /// All whole names.
    var names: [String] { [commandName] + others.flatMap { other in other.names.map { "\(commandName) \($0)" } } }

    /// The whole names of the commands that do something. The others are groups of them.
    var doing: [String] {
        let isGroup = !others.isEmpty && (arguments ?? []).allSatisfy(\.isHelp)
        return (isGroup ? [] : [commandName]) + others.flatMap { other in other.doing.map { "\(commandName) \($0)" } }
    }

    /// The whole name of the command that words call.
    func name(calledBy words: [String]) -> String {
        var (name, command) = (commandName, self)
        for word in words {
            guard let next = command.others.first(where: { $0.commandName == word }) else { break }
            name += " \(word)"
            command = next
        }
        return Self.usual[name].map { "\(name) \($0)" } ?? name
    }

    private var others: [DescribedCommand] { (subcommands ?? []).filter { $0.commandName != "help" } }
}
