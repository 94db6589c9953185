// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Logging
import RelayComposition
import RelayIssuer
import RelayProtocol
import RelayServer

struct InviteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: "Print a link with which one device can join an account within ten minutes."
    )

    @OptionGroup var settings: ConfigurationOptions
    @Argument(help: "The account's id or name; optional if there is only one account.") var account: String?
    @Flag(help: "Print a JSON object.") var json = false

    func run() async throws {
        let configuration = try settings.read()
        let (issuer, relay) = try openIssuer(configuration, .existing)
        let user = try Self.choose(account, among: try await issuer.users())
        let (origin, note) = try configuration.linkOrigin()
        let code = try await issuer.invite(subject: user.subject)
        let invitation = try JoinLink(origin: origin, relay: relay, invite: code, plainHTTP: .allowed)
        if let note { StandardStream.error.writeLine("relayd: \(note)") }
        try json ? printJSON(["link": invitation.text, "account": user.subject]) : print(invitation.text)
    }

    private static func choose(_ account: String?, among users: [IssuerUser]) throws -> IssuerUser {
        guard let account else {
            guard let only = users.first, users.count == 1 else {
                throw ConfigurationError(
                    users.isEmpty
                        ? "there is no account yet: make one with `relayd account add NAME`"
                        : "there are \(users.count) accounts: give a name or id that `relayd account list` prints"
                )
            }
            return only
        }
        let named = users.filter { user in
            [user.subject, user.name, AccountID(of: Composition.identity(of: user.subject)).rawValue].contains(account)
        }
        guard let user = named.first, named.count == 1 else {
            throw ConfigurationError(
                named.isEmpty
                    ? "there is no such account: see `relayd account list`"
                    : "several accounts have this name: use one of the ids \(named.map(\.subject).joined(separator: ", "))"
            )
        }
        return user
    }
}

/// Opens the issuer of the data directory. A relay may run on it at the same time.
private func openIssuer(_ configuration: RelayConfiguration, _ use: DataDirectory.Use) throws -> (Issuer, RelayID) {
    let directory = try DataDirectory(configuration.dataDirectory, use)
    let key = try RelayKey.load(in: directory.path)
    let clock = RelayClock.system
    var logger = Logger(label: "relayd") { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = .warning
    return (try Issuer.open(directory.path, origins: [], relay: key.id, now: { clock.now().time }, logger: logger), key.id)
}
