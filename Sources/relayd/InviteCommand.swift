// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer

struct InviteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: localized("Print a link with which one device can join an account within ten minutes."),
        discussion: localized(
            """
            Standard output has only the link. Standard error also names the address for `relay login`, if the relay uses its own key.
            """
        )
    )

    @Argument(help: .text("The account's id or name; optional if there is only one account.")) var account: String?
    @Flag(help: .text("Print a JSON object.")) var json = false
    @OptionGroup var settings: LinkOptions

    func run() async throws {
        let configuration = try settings.read()
        let place = try configuration.announcedLinkPlace()
        let relay = try RelayKey.load(in: configuration.dataDirectory).id
        guard case .invitation(let code, let subject) = try await administer(.invite(account: account), configuration) else {
            throw AdminError.unknownAnswer
        }
        let invitation = try JoinLink(origin: place.origin, relay: relay, invite: code, plainHTTP: .allowed)
        let login = place.login(at: relay)
        if json { return try printJSON(["link": invitation.text, "account": subject, "login": login]) }
        try print(asIs: invitation.text)
        if place.showsOwnKey {
            StandardStream.note("relayd: a device also signs in, with a password, by: relay login '\(login)'")
        }
    }
}
