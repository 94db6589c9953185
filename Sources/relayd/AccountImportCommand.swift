// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

extension AccountCommand {
    struct Import: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Add an account for each row of a table, and print their set-up links."),
            discussion: localized(
                """
                The table is CSV, and its first row names the columns: name, and perhaps quotas (`relayd account quota`). If a row is wrong, every wrong \
                row is named and nothing is changed. Accounts that exist get the quotas of the table and no link, so the command can be run again.

                The output is CSV too: name, account, state, link. A link is a secret, with which its owner sets a password or a passkey within a day.
                """
            )
        )

        @Argument(help: .text("The file of the table, or - for standard input.")) var file: String
        @Flag(help: .text("Only check the table, and print which accounts would be added.")) var dryRun = false
        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: LinkOptions

        /// A row of the result.
        private struct Line: Encodable {
            enum State: String, Encodable { case added, exists, new }
            var name: String
            var account: String?
            var state: State
            var link: String?

            var csv: String { CSVTable.line([name, account ?? "", state.rawValue, link ?? ""]) }
        }

        func run() async throws {
            let table = try AccountImport(reading: file)
            let configuration = try settings.read()
            if dryRun { return try write(try await planned(table, configuration)) }
            let place = try configuration.announcedLinkPlace(.made)
            var lines: [Line] = []
            if !json { try print(asIs: Self.header) }
            for batch in table.batches {
                let request = AdminRequest.importAccounts(batch, origin: place.origin)
                guard case .imported(let accounts) = try await administer(request, configuration, .made) else {
                    throw AdminError.unknownAnswer
                }
                let relay = try RelayKey.load(in: configuration.dataDirectory).id
                let added = accounts.map { account in
                    let link = account.link.map { place.setUp($0, at: relay).exposed }
                    return Line(name: account.name, account: account.id, state: link == nil ? .exists : .added, link: link)
                }
                // Each batch at once: what was made is not lost if a later one fails.
                if json { lines += added } else { for line in added { try print(asIs: line.csv) } }
            }
            if json { try printJSON(lines) }
            if place.showsOwnKey { StandardStream.note("relayd: \(LinkText.forTerminal)") }
        }

        private static let header = CSVTable.line(["name", "account", "state", "link"])

        private func planned(_ table: AccountImport, _ configuration: RelayConfiguration) async throws -> [Line] {
            var known: [AdminAccount] = []
            // Before the first start there is no account.
            if FileManager.default.fileExists(atPath: "\(configuration.dataDirectory)/\(RelayKey.fileName)") {
                guard case .accounts(let accounts) = try await administer(.listAccounts, configuration) else {
                    throw AdminError.unknownAnswer
                }
                known = accounts
            }
            let existing = table.existing(among: known.compactMap(\.name))
            return table.accounts.map { Line(name: $0.name, state: existing.contains($0.name) ? .exists : .new) }
        }

        private func write(_ lines: [Line]) throws {
            if json { return try printJSON(lines) }
            for line in [Self.header] + lines.map(\.csv) { try print(asIs: line) }
        }
    }
}
