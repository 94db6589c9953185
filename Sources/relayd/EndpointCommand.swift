// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayProtocol
import RelayServer

struct EndpointCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "endpoint",
        abstract: localized("List endpoints, and revoke the endpoint of a lost device."),
        discussion: localized("The relay has to run on the data directory."),
        subcommands: [List.self, Revoke.self],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("List the endpoints of an account, or of all."))

        @Argument(help: .text("The account's id or name. Default: all accounts.")) var account: String?
        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            let answer = try await AdminSocket.ask(.listEndpoints(account: account), in: try settings.read().dataDirectory)
            guard case .endpoints(let endpoints) = answer else { throw AdminError.unknownAnswer }
            if json { return try printJSON(endpoints) }
            for endpoint in endpoints { try print(asIs: endpoint.line) }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Revoke an endpoint for ever, and end its logins."),
            discussion: localized(
                """
                Use it for a lost device that no other device of its owner can revoke. It cannot be undone, so it asks first. Endpoints that are established only \
                through the revoked one can no longer revoke or invite. Prints the revoked endpoint and the endpoints that it had let in.
                """
            )
        )

        @Argument(help: .text("The endpoint's id, as `relayd endpoint list` prints it.")) var endpoint: String

        @Flag(help: .text("Also revoke all endpoints that it invited or approved, directly or indirectly.")) var withInvited = false
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var confirmation: ConfirmationOptions
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            let directory = try settings.read().dataDirectory
            guard case .endpoints(let all) = try await AdminSocket.ask(.listEndpoints(account: nil), in: directory) else {
                throw AdminError.unknownAnswer
            }
            // One that is revoked already is not listed. Those that it let in may still be.
            let found = all.first { $0.id.utf8.elementsEqual(endpoint.utf8) }
            let line = found?.line ?? "\(endpoint), which is not listed: it may be revoked already"
            try confirmation.ask("Revoke for ever: \(line)" + (withInvited ? "\nand all endpoints that it let in." : ""))
            let answer = try await AdminSocket.ask(.revokeEndpoint(id: endpoint, withInvited: withInvited), in: directory)
            guard case .revocation(let revocation) = answer else { throw AdminError.unknownAnswer }
            if json { return try printJSON(revocation) }
            for endpoint in revocation.revoked { try print("revoked \(endpoint.line)") }
            if !revocation.revoked.isEmpty, !revocation.issuers.isEmpty {
                try print(
                    "This relay accepts no older token of \(revocation.issuers.joined(separator: ", ")) for a new endpoint of the account. "
                        + "It cannot end logins there: let the owner sign the device out on the account page of that provider, too."
                )
            }
            guard !revocation.letIn.isEmpty else { return }
            try print("It invited or approved these endpoints, which stay. Revoke the unwanted ones, or all of them with --with-invited:")
            for endpoint in revocation.letIn { try print(asIs: endpoint.line) }
        }
    }
}

extension AdminEndpoint {
    /// The facts are in the person's language.
    fileprivate var line: String {
        var facts = [isConnected ? "connected" : "not connected"]
        if !isEstablished { facts.append("not approved") }
        let time = Date(timeIntervalSince1970: Double(joined) / 1_000).formatted(.iso8601)
        facts.append(address.map { "joined \(time) from \($0)" } ?? "joined \(time)")
        if let invitedBy { facts.append("invited by \(invitedBy.prefix(8))") }
        return "\(id)  \(DisplayText.sanitized(account))  \(DisplayText.sanitized(name))  " + facts.map(localized).joined(separator: ", ")
    }
}
