// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayIssuer
import RelayProtocol
import RelayServer

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: localized("Add, list, disable and remove accounts."),
        discussion: localized("The commands need no restart. They also work while no relay runs on the data directory."),
        subcommands: [
            List.self, Add.self, Import.self, SetUp.self, Rename.self, Disable.self, Enable.self, Remove.self, Link.self, Unlink.self,
            Quota.self, Export.self,
            AccountKeyCommand.self,
        ],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("List the accounts, oldest first."))

        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            guard case .accounts(let accounts) = try await administer(.listAccounts, settings.read()) else {
                throw AdminError.unknownAnswer
            }
            if json { return try printJSON(accounts) }
            for account in accounts { try print(asIs: account.line) }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Add an account and print its id."),
            discussion: localized(
                """
                Its owner's first device joins by a link of `relayd invite`. With --set-up, the command also prints a link with which the owner \
                sets a password or a passkey, as `relayd account set-up` does later. With --password, it reads the owner's password from \
                standard input.
                """
            )
        )

        @Argument(help: .text("The account's name, such as the name of its owner.")) var name: String
        @Flag(help: .text("Print a link with which the owner sets a password or a passkey.")) var setUp = false
        @Flag(help: .text("Read the owner's password from standard input.")) var password = false
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: LinkOptions

        func validate() throws {
            if setUp, password { throw ValidationError("give either --set-up or --password") }
        }

        private struct Added: Encodable {
            var account: AdminAccount
            var setUpLink: String?

            private enum CodingKeys: String, CodingKey { case setUpLink }

            func encode(to encoder: any Encoder) throws {
                try account.encode(to: encoder)
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encodeIfPresent(setUpLink, forKey: .setUpLink)
            }
        }

        func run() async throws {
            let secret = try password ? TypedSecret.newPassword() : nil
            // Before anything is made.
            if let secret { try Issuer.check(password: secret, name: name) }
            let configuration = try settings.read()
            let place = try setUp ? configuration.announcedLinkPlace(.made) : nil
            // The account may be added before the relay first runs.
            let request = AdminRequest.addAccount(name: name, password: secret)
            guard case .account(let account) = try await administer(request, configuration, .made) else { throw AdminError.unknownAnswer }
            var link: String?
            if let place {
                let request = AdminRequest.setUpLink(account: account.id, origin: place.origin, isReset: false)
                guard case .link(let made, _) = try await administer(request, configuration) else { throw AdminError.unknownAnswer }
                link = try configuration.announced(made, at: place)
            }
            if json { return try printJSON(Added(account: account, setUpLink: link)) }
            try print(asIs: account.id)
            if let link { try print(asIs: link) }
        }
    }

    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("Give an account another name."))

        @OptionGroup var options: AccountOptions
        @Argument(help: .text("Its new name.")) var name: String

        func run() async throws {
            try await options.change(.renameAccount(options.account, to: name))
        }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Close an account's channels, and let none of its devices in until `account enable`.")
        )

        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(.disableAccount(options.account))
        }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("Let the devices of a disabled account in again."))

        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(.enableAccount(options.account))
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Remove an account with its devices, commands and logins."),
            discussion: localized(
                """
                It cannot be undone, so it asks first. The account's identities make no new account. `relayd account export` prints what is \
                stored.
                """
            )
        )

        @OptionGroup var confirmation: ConfirmationOptions
        @OptionGroup var options: AccountOptions

        func run() async throws {
            let configuration = try options.settings.read()
            guard case .accounts(let accounts) = try await administer(.listAccounts, configuration) else { throw AdminError.unknownAnswer }
            let account = try accounts.meant(by: options.account)
            try confirmation.ask("Remove for ever: \(account.line)")
            // By its id, because another account may have the name by now.
            try await options.change(.removeAccount(account.id))
        }
    }

    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Let an account's owner in by another trusted issuer too."),
            discussion: localized("Check that the identity is the owner's: it has all of the account. An e-mail address proves nothing.")
        )

        @Option(help: .text("The issuer's URL, as --issuers-file has it.")) var issuer: String
        @Option(help: .text("What identifies the owner at the issuer: the value of the account claim.")) var subject: String
        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(.linkAccount(options.account, issuer: issuer, subject: subject))
        }
    }

    struct Unlink: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Remove an identity of another issuer from an account."),
            discussion: localized(
                """
                Its channels end at once. `relayd account list` shows the identities, and which endpoint linked them. An identity also goes when \
                the endpoint that linked it is revoked.
                """
            )
        )

        @Option(help: .text("The issuer's URL.")) var issuer: String
        @Option(help: .text("What identifies the person at the issuer.")) var subject: String
        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(.unlinkAccount(options.account, issuer: issuer, subject: subject))
        }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Print all that the relay stores of an account as a JSON object."),
            discussion: localized("Commands that wait are encrypted for their devices, and are only counted.")
        )

        @Argument(help: .text("The account's id or name.")) var account: String
        @Flag(help: .text("Print a JSON object: the default.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            guard case .export(let export) = try await administer(.exportAccount(account), settings.read()) else {
                throw AdminError.unknownAnswer
            }
            try printJSON(export)
        }
    }
}

/// What commands that change one account have in common.
struct AccountOptions: ParsableArguments {
    @Argument(help: .text("The account's id or name.")) var account: String
    @Flag(help: .text("Print a JSON object.")) var json = false
    @OptionGroup var settings: DataDirectoryOptions

    /// Asks for a change of an account, and prints the account.
    func change(_ request: AdminRequest) async throws {
        guard case .account(let account) = try await administer(request, settings.read()) else { throw AdminError.unknownAnswer }
        try json ? printJSON(account) : print(asIs: account.line)
    }
}

extension AdminAccount {
    /// The facts are in the person's language.
    fileprivate var line: String {
        let facts =
            [endpoints == 1 ? "1 endpoint" : "\(endpoints) endpoints"] + (isDisabled ? ["disabled"] : [])
            + (quotas ?? [:]).sorted { $0.key < $1.key }.map { "\(DisplayText.sanitized($0.key)) \($0.value)" }
        let first = "\(id)  \(DisplayText.sanitized(name ?? "-"))  \(facts.map(localized).joined(separator: ", "))"
        // A person of the relay's own issuer is the account itself.
        let others = identities.filter { $0.issuer != Composition.issuerKey }.map { identity in
            "  signs in at \(identity.issuer) as \(identity.subject)" + (identity.linkedBy.map { ", linked by endpoint \($0)" } ?? "")
        }
        .map(localized)
        return ([first] + others).joined(separator: "\n")
    }
}
