// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayProtocol
import RelayServer

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: localized("Revoke access tokens."),
        subcommands: [Revoke.self]
    )

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Revoke an access token that was lost or published, and close its channels."),
            discussion: localized(
                """
                Reads the token from standard input, so that it is in no shell history. If the relay's own issuer issued it, its login is \
                revoked too. Tokens of other issuers are refused by this relay only: revoke the login at its issuer.
                """
            )
        )

        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            let token = try TypedSecret.line("the token", "Paste the token; it is not shown:")
            guard case .token(let revoked) = try await administer(.revokeToken(token), settings.read()) else {
                throw AdminError.unknownAnswer
            }
            if json { return try printJSON(revoked) }
            try print(
                "revoked a token of \(DisplayText.sanitized(revoked.subject)) from \(revoked.issuer)"
                    + (revoked.isLoginRevoked ? ", and its login" : "")
            )
        }
    }
}
