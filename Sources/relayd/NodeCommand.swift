// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

struct NodeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "node",
        abstract: localized("List the nodes that share a PostgreSQL database, and drain one."),
        subcommands: [List.self, Drain.self],
        defaultSubcommand: List.self
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("List the nodes that live, and those that ended in the last day."),
            discussion: localized(
                "A node that ended without a word is listed as serving until the others find it dead, which takes some ten seconds."
            )
        )

        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() throws {
            let nodes = try Nodes.list(settings.read())
            if json { return try printJSON(nodes) }
            for node in nodes { try print(node.line) }
        }
    }

    struct Drain: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Let a node give its accounts to others, and take no more."),
            discussion: localized(
                "Do it before the node's machine goes. The node runs until it is stopped; a node that stops drains itself first."
            )
        )

        @Argument(help: .text("The node's number, as `relayd node list` prints it.")) var number: Int
        @OptionGroup var settings: DataDirectoryOptions

        func run() throws {
            try Nodes.drain(number, settings.read())
            try print("node \(number) gives its accounts to others within some seconds: see `relayd node list`")
        }
    }
}

extension NodeState {
    fileprivate var line: String {
        let since = Date(timeIntervalSince1970: Double(started) / 1_000).formatted(.iso8601)
        let place = url.map { "  \(DisplayText.sanitized($0))" } ?? ""
        return "\(number)  \(phase.rawValue)\(place)  \(accounts) accounts, version \(DisplayText.sanitized(version)), since \(since)"
    }
}
