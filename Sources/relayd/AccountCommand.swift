// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayComposition
import RelayIssuer
import RelayProtocol
import RelayServer

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Add, list, disable and remove accounts.",
        discussion: "The commands need no restart. They also work while no relay runs on the data directory.",
        subcommands: [
            List.self, Add.self, SetUp.self, Rename.self, Disable.self, Enable.self, Remove.self, Link.self, Unlink.self, Export.self,
        ],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the accounts, oldest first.")

        @OptionGroup var settings: ConfigurationOptions
        @Flag(help: "Print a JSON array.") var json = false

        func run() async throws {
            let accounts = try await administer(AdminRequest(.listAccounts), settings).accounts ?? []
            if json { return try printJSON(accounts) }
            for account in accounts { print(account.line) }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add an account and print its id.",
            discussion: """
                Its owner's first device joins by a link of `relayd invite`. With --set-up, the command also prints a link to the page where the
                owner sets a password or a passkey, as `relayd account set-up` does later. With --password, it reads the owner's password from
                standard input.
                """
        )

        @OptionGroup var settings: ConfigurationOptions
        @Argument(help: "The account's name, such as the name of its owner.") var name: String
        @Flag(help: "Print a link with which the owner sets a password or a passkey.") var setUp = false
        @Flag(help: "Read the owner's password from standard input.") var password = false
        @Flag(help: "Print a JSON object.") var json = false

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
            let text = password ? readLine(strippingNewline: true) : nil
            if password, text?.isEmpty ?? true { throw ValidationError("the password is read from standard input, which is empty") }
            let configuration = try settings.read()
            if let text { try Issuer.check(password: Secret(text), name: name) }
            let request = AdminRequest(.addAccount, name: name)
            // The account may be added before the relay first runs.
            guard let account = try await administer(request, settings, .made).accounts?.first else { return }
            var link: String?
            if setUp || text != nil, let subject = account.identities.first(where: { $0.issuer == Composition.issuerKey })?.subject {
                let (issuer, _) = try openIssuer(configuration, .existing)
                if let text { try await issuer.setPassword(subject: subject, to: Secret(text)) }
                if setUp {
                    let (origin, note) = try configuration.linkOrigin()
                    link = try await issuer.setUpLink(subject: subject, origin: origin).exposed
                    if let note { StandardStream.error.writeLine("relayd: \(note)") }
                }
            }
            if json { return try printJSON(Added(account: account, setUpLink: link)) }
            print(account.id)
            if let link { print(link) }
        }
    }

    struct Rename: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Give an account another name.")

        @OptionGroup var options: AccountOptions
        @Argument(help: "Its new name.") var name: String

        func run() async throws {
            try await options.change(AdminRequest(.renameAccount, account: options.account, name: name))
        }
    }

    struct Disable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Close an account's channels, and let none of its devices in until `account enable`."
        )

        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(AdminRequest(.disableAccount, account: options.account))
        }
    }

    struct Enable: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Let the devices of a disabled account in again.")

        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(AdminRequest(.enableAccount, account: options.account))
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove an account with its devices, commands and logins.",
            discussion: "It cannot be undone. The account's identities make no new account. `relayd account export` prints what is stored."
        )

        @OptionGroup var options: AccountOptions

        func run() async throws {
            try await options.change(AdminRequest(.removeAccount, account: options.account))
        }
    }

    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let an account's owner in by another trusted issuer too.",
            discussion: "Check that the identity is the owner's: it has all of the account. An e-mail address proves nothing."
        )

        @OptionGroup var options: AccountOptions
        @Option(help: "The issuer's URL, as --issuers-file has it.") var issuer: String
        @Option(help: "What identifies the owner at the issuer: the value of the account claim.") var subject: String

        func run() async throws {
            let request = AdminRequest(.linkAccount, account: options.account, issuer: issuer, subject: subject)
            try await options.change(request)
        }
    }

    struct Unlink: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let nobody in any more by an identity of another issuer.",
            discussion: """
                Its channels end at once. `relayd account list` shows the identities, and which endpoint linked them. An identity also goes when
                the endpoint that linked it is revoked.
                """
        )

        @OptionGroup var options: AccountOptions
        @Option(help: "The issuer's URL.") var issuer: String
        @Option(help: "What identifies the person at the issuer.") var subject: String

        func run() async throws {
            let request = AdminRequest(.unlinkAccount, account: options.account, issuer: issuer, subject: subject)
            try await options.change(request)
        }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print all that the relay stores of an account as a JSON object.",
            discussion: "Commands that wait are encrypted for their devices, and are only counted."
        )

        @OptionGroup var settings: ConfigurationOptions
        @Argument(help: "The account's id or name.") var account: String
        @Flag(help: "Print a JSON object: the default.") var json = false

        func run() async throws {
            let answer = try await administer(AdminRequest(.exportAccount, account: account), settings)
            if let export = answer.export { try printJSON(export) }
        }
    }
}

/// What commands that change one account have in common.
struct AccountOptions: ParsableArguments {
    @OptionGroup var settings: ConfigurationOptions
    @Argument(help: "The account's id or name.") var account: String
    @Flag(help: "Print a JSON object.") var json = false

    /// Asks for a change of the account, and prints the account.
    func change(_ request: AdminRequest) async throws {
        guard let account = try await administer(request, settings).accounts?.first else { return }
        try json ? printJSON(account) : print(account.line)
    }
}

extension AdminAccount {
    fileprivate var line: String {
        let facts = ["\(endpoints) endpoint\(endpoints == 1 ? "" : "s")"] + (isDisabled ? ["disabled"] : [])
        let first = "\(id)  \(DisplayText.sanitized(name ?? "-"))  \(facts.joined(separator: ", "))"
        // A person of the relay's own issuer is the account itself.
        let others = identities.filter { $0.issuer != Composition.issuerKey }.map { identity in
            "  signs in at \(identity.issuer) as \(identity.subject)" + (identity.linkedBy.map { ", linked by endpoint \($0)" } ?? "")
        }
        return ([first] + others).joined(separator: "\n")
    }
}
