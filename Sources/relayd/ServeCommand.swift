// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayComposition
import RelayIssuer
import RelayProtocol
import RelayServer

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: localized("Run the relay until SIGTERM or SIGINT."),
        discussion: localized(
            """
            Prints one line with the relay's id and URLs when it is ready. Settings come from flags, then the environment, then the file. \
            If there is no account yet, it makes one for the user that starts it, and prints two links: for the first device, and for its owner, \
            who chooses a password or a passkey with it. Later links come from `relayd invite` and `relayd account set-up`, or from a device \
            of the account (`relay invite`). `relayd account add` makes accounts for other people.
            """
        )
    )

    @OptionGroup var settings: ConfigurationOptions

    func run() async throws {
        try await runRelay(settings) { composition, configuration, key in
            composition.hasIssuer ? try await Self.greeting(composition, configuration, key) : nil
        }
    }

    /// A relay without an account is of no use: the operator gets one at the first start.
    private static func greeting(_ composition: Composition, _ configuration: RelayConfiguration, _ key: RelayKey) async throws -> String? {
        let issuer = composition.issuer
        guard try await issuer.users().isEmpty else { return nil }
        let user = ProcessInfo.processInfo.environment["USER"] ?? ""
        // The user name may not be a valid account name.
        let name = AccountName(user)?.text ?? "me"
        let subject = try await composition.addFirstAccount(named: name)
        let invite = try await issuer.invite(subject: subject)
        let serving = try Serving(relay: key.id, configuration)
        let place = LinkPlace(origin: serving.origins.first ?? "", showsOwnKey: serving.showsOwnKey ?? false)
        let link = try JoinLink(origin: place.origin, relay: key.id, invite: invite, plainHTTP: .allowed)
        let setUp = place.setUp(try await issuer.setUpLink(subject: subject, origin: place.origin), at: key.id).exposed
        let join = "its first device joins within ten minutes: run `relay join` there, and paste \(link.text)"
        let made = "made the account \(DisplayText.sanitized(name)); \(join)"
        guard place.showsOwnKey else {
            return """
                \(made)
                its owner chooses a password or a passkey within a day at: \(setUp)
                later links: `relayd invite` for the next device, `relayd account set-up` for the page
                """
        }
        return """
            \(made)
            its owner chooses a password within a day: run `relay account password`, and paste \(setUp)
            with the password, a device signs in by: relay login '\(place.login(at: key.id))'
            later links: `relayd invite` for the next device, `relayd account set-up` for a password
            \(LinkText.browsers)
            """
    }
}
