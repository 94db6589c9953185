// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct ProfilesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profiles",
        abstract: localized("List this machine's profiles: which account each one is, and whether its relay accepts the login.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Profiles().run(context))
    }
}

struct ProfileCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profile",
        abstract: localized("Choose the profile that commands use."),
        subcommands: [Use.self]
    )

    struct Use: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "use", abstract: localized("Make commands use this profile."))

        @OptionGroup var common: CommonOptions
        @Argument(help: .text("The profile's name, as `relay profiles` prints it."), completion: .profiles) var name: String

        func run() async throws {
            let context = try common.context
            try context.console.print(try UseProfile(name).run(context))
        }
    }
}

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: localized("Change your account at the relay."),
        subcommands: [Link.self, Password.self]
    )
}

extension AccountCommand {
    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "link",
            abstract: localized("Let yourself sign in to your account by another identity provider, too."),
            discussion: localized(
                """
                You sign in there, in a browser or with a code. New devices can then sign in at either provider, and are in this account. This device \
                must be approved. The identity must not have an account of its own at the relay.
                """
            )
        )

        @OptionGroup var common: CommonOptions
        @Option(help: ArgumentHelp(localized("The identity provider, of those that the relay accepts."), valueName: "url")) var issuer:
            String
        @Option(help: ArgumentHelp(localized("The client id that this program has at the provider, if it needs one."), valueName: "id"))
        var clientID: String?
        @OptionGroup var provider: ProviderOptions
        @Flag(help: .text("Print a code to enter in a browser on any device.")) var device = false
        @Flag(help: .text("Open a browser on this machine.")) var browser = false

        func validate() throws { try provider.validate(device: device, browser: browser, issuer: issuer, clientID: clientID) }

        func run() async throws {
            let context = try common.context
            let link = LinkIdentity(
                issuer: issuer,
                clientID: clientID,
                scopes: provider.scopes,
                method: provider.method(device: device, browser: browser),
                redirectPort: provider.redirectPort
            )
            try context.console.print(try await link.run(context))
        }
    }
}

extension AccountCommand {
    struct Password: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "password",
            abstract: localized("Set the password of your account at the relay, without a browser."),
            discussion: localized(
                """
                The first password needs a set-up link, which the relay's first start and `relayd account set-up` print. Without a link, or with -, \
                it is read from the terminal, which does not show it, or from standard input. A link among the arguments is visible to other users \
                of this machine. A password that you know, or a recovery code in its place, sets another one: press Return instead of a link, or \
                give --user.

                A script writes to standard input, one on each line: the link, or with --user the present password; and the new password.
                """
            )
        )

        @OptionGroup var common: CommonOptions
        @Argument(help: .text("A set-up link, or -. It works once.")) var link: String?
        @Option(help: .text("The name of your account, to change a password that you know.")) var user: String?
        @Option(
            help: ArgumentHelp(
                localized(
                    "The relay's address, or https://HOST:PORT/#relay=ID for one with its own key. Default: the relay of this device."
                ),
                valueName: "relay-url"
            )
        )
        var relay: String?
        @Flag(
            help: .text(
                """
                Keep the account's passkeys, apps and devices when a set-up link is used. Without this a terminal asks, and a script ends them.
                """
            )
        )
        var keep = false
        @Flag(help: .text("Accept plain HTTP to another machine. Others on the network can then read the traffic.")) var allowHttp = false

        @Option(
            help: ArgumentHelp(
                localized("A PEM file with the authorities for the relay's certificate, for a relay with a private authority."),
                valueName: "file"
            ),
            completion: .file()
        )
        var caFile: String?

        func validate() throws {
            if link != nil, user != nil || relay != nil {
                throw ValidationError("A link names its relay and its account: leave out --user and --relay.")
            }
        }

        func run() async throws {
            let context = try common.context
            let command = AccountPassword(
                link: link,
                user: user,
                relay: relay,
                keepsOthers: keep,
                allowsPlainHTTP: allowHttp,
                caFile: caFile
            )
            try context.console.print(try await command.run(context))
        }
    }
}

struct SessionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions",
        abstract: localized("Print this device's login, and where the account's other logins are listed.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try Sessions().run(context))
    }
}
