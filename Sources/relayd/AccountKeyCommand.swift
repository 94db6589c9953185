// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayProtocol
import RelayServer

struct AccountKeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: localized("List the keys that sign the tokens of all accounts, and remove one that others may have."),
        subcommands: [List.self, Remove.self],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("List the signing keys of the relay's own issuer, oldest first."),
            discussion: localized("The relay makes a new key every 90 days by itself. It makes the first one with the first token.")
        )

        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws { try await AccountKeyCommand.show(.listKeys, settings, json: json) }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Remove a signing key that others may have, and refuse all its tokens."),
            discussion: localized(
                """
                The channels with its tokens close, at other nodes within a second, and the devices get new tokens by themselves: no login ends. \
                If it signs, a new key takes its place at once. Prints the keys that remain. Whoever could read a signing key could read \
                issuer.key and the database, too: find out how.
                """
            )
        )

        @Argument(help: .text("The key's id, as `relayd account key list` prints it. Write -- before an id that begins with a hyphen."))
        var id: String
        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws { try await AccountKeyCommand.show(.removeKey(id), settings, json: json) }
    }

    /// Prints the keys that there are after a request.
    fileprivate static func show(_ request: AdminRequest, _ settings: DataDirectoryOptions, json: Bool) async throws {
        guard case .keys(let keys) = try await administer(request, settings.read()) else { throw AdminError.unknownAnswer }
        if json { return try printJSON(keys) }
        for key in keys { try print(key.line) }
    }
}

extension AdminKey {
    fileprivate var line: String {
        let since = Date(timeIntervalSince1970: Double(activates) / 1_000).formatted(.iso8601)
        return phase == "next" ? "\(id)  next, from \(since)" : "\(id)  \(phase), since \(since)"
    }
}
