// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct ProfilesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "profiles",
        abstract: "List this machine's profiles: which account each one is, and whether its relay accepts the login."
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
        abstract: "Choose the profile that commands use.",
        subcommands: [Use.self]
    )

    struct Use: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "use", abstract: "Make commands use this profile.")

        @OptionGroup var common: CommonOptions
        @Argument(help: "The profile's name, as `relay profiles` prints it.", completion: .profiles) var name: String

        func run() async throws {
            let context = try common.context
            try context.console.print(try UseProfile(name).run(context))
        }
    }
}

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Change your account at the relay.",
        subcommands: [Link.self]
    )
}

extension AccountCommand {
    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "link",
            abstract: "Let yourself sign in to your account by another identity provider, too.",
            discussion: """
                You sign in there, in a browser or with a code. New devices can then sign in at either provider, and are in this account. This device \
                must be approved. The identity must not have an account of its own at the relay.
                """
        )

        @OptionGroup var common: CommonOptions
        @Option(help: ArgumentHelp("The identity provider, of those that the relay accepts.", valueName: "url")) var issuer: String
        @Option(help: ArgumentHelp("The client id that this program has at the provider, if it needs one.", valueName: "id")) var clientID:
            String?
        @OptionGroup var redirect: RedirectOptions
        @Flag(help: "Print a code to enter in a browser on any device.") var device = false
        @Flag(help: "Open a browser on this machine.") var browser = false

        func validate() throws { try redirect.validate(device: device, browser: browser, clientID: clientID) }

        func run() async throws {
            let context = try common.context
            let link = LinkIdentity(
                issuer: issuer,
                clientID: clientID,
                method: redirect.method(device: device, browser: browser),
                redirectPort: redirect.redirectPort
            )
            try context.console.print(try await link.run(context))
        }
    }
}

struct SessionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions",
        abstract: "Print this device's login, and where the account's other logins are listed."
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try Sessions().run(context))
    }
}
