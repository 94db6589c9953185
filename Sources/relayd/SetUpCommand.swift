// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

extension AccountCommand {
    struct SetUp: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set-up",
            abstract: localized("Print a link with which an account's owner sets a password or a passkey within a day."),
            discussion: localized(
                """
                The link works once, in a browser or with `relay account password`. A new link replaces the account's earlier one. Its use ends the \
                account's recovery codes and browsers, and the page asks whether passkeys, apps and devices end, too.
                """
            )
        )

        @Argument(help: .text("The account's id or name; optional if there is only one account.")) var account: String?
        @Flag(
            help: .text(
                """
                End the password, passkeys, recovery codes and browsers of the account at once, and all its apps and devices when the link is used.
                """
            )
        )
        var reset = false
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: LinkOptions

        func run() async throws {
            let configuration = try settings.read()
            let place = try configuration.announcedLinkPlace()
            let request = AdminRequest.setUpLink(account: account, origin: place.origin, isReset: reset)
            guard case .link(let made, let subject) = try await administer(request, configuration) else { throw AdminError.unknownAnswer }
            let link = try configuration.announced(made, at: place)
            try json ? printJSON(["link": link, "account": subject]) : print(link)
        }
    }
}
