// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import Testing

@testable import relayd

/// The help of every command of `relayd`.
@Suite struct HelpTests {
    private static let all = commands(below: Relayd.self)

    private static func commands(below command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        [command] + command.configuration.subcommands.flatMap { commands(below: $0) }
    }

    /// The options in the order of the help.
    private static func options(of command: any ParsableCommand.Type) -> [String] {
        Relayd.helpMessage(for: command, columns: 1_000).split(separator: "\n").filter { $0.hasPrefix("  -") }
            .compactMap { line in line.split(separator: " ").first { $0.hasPrefix("--") }.map { String($0.filter { $0 != "," }) } }
    }

    /// First what the command itself needs, then the few settings of the server.
    @Test func ownOptionsComeFirst() {
        let common: Set = ["--config", "--data-directory", "--store", "--url", "--version", "--help"]
        #expect(Self.all.count > 25)
        // The doctor takes all settings of the server, too.
        for command in Self.all where command != ServeCommand.self && command != DoctorCommand.self {
            let options = Self.options(of: command)
            let rest = options.drop { !common.contains($0) }
            #expect(rest.allSatisfy { common.contains($0) }, "\(command): \(options)")
        }
    }

    /// The terminal's width decides where lines end.
    @Test func descriptionsAreParagraphs() {
        for command in Self.all {
            let text = command.configuration.discussion
            #expect(text.firstMatch(of: /[^\n]\n[^\n]/) == nil, "\(command): \(text)")
        }
    }
}
