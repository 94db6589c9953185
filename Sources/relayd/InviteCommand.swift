// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayProtocol
import RelayServer

struct InviteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Print a link with which one device can join an account within ten minutes."
    )

    @Argument(help: "The account's id or name; optional if there is only one account.") var account: String?
    @Flag(help: "Print a JSON object.") var json = false
    @OptionGroup var settings: LinkOptions

    func run() async throws {
        let configuration = try settings.read()
        let origin = try configuration.announcedLinkOrigin()
        let relay = try RelayKey.load(in: configuration.dataDirectory).id
        guard case .invitation(let code, let subject) = try await administer(.invite(account: account), configuration) else {
            throw AdminError.unknownAnswer
        }
        let invitation = try JoinLink(origin: origin, relay: relay, invite: code, plainHTTP: .allowed)
        try json ? printJSON(["link": invitation.text, "account": subject]) : print(invitation.text)
    }
}
