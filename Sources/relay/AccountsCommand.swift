// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

struct AccountsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accounts",
        abstract: "List this machine's accounts, and whether their relays answer."
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Accounts().run(context))
    }
}

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Choose the account that commands use, or let its user sign in by another identity provider, too.",
        subcommands: [Use.self, Link.self]
    )

    struct Use: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "use", abstract: "Make commands use this account.")

        @OptionGroup var common: CommonOptions
        @Argument(help: "The account's name, as `relay accounts` prints it.", completion: .accounts) var name: String

        func run() async throws {
            let context = try common.context
            try context.console.print(try UseAccount(name).run(context))
        }
    }
}

extension AccountCommand {
    struct Link: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "link",
            abstract: "Let this account's user sign in by another identity provider, too.",
            discussion: """
                You sign in there, in a browser or with a code. New devices can then sign in at either provider, and are in this account. This device \
                must be approved. The identity must not have an account of its own at the relay.
                """
        )

        @OptionGroup var common: CommonOptions
        @Option(help: ArgumentHelp("The identity provider, of those that the relay accepts.", valueName: "url")) var issuer: String
        @Option(help: ArgumentHelp("The client id that this program has at the provider, if it needs one.", valueName: "id")) var clientID:
            String?
        @Flag(help: "Print a code to enter in a browser on any device.") var device = false
        @Flag(help: "Open a browser on this machine.") var browser = false

        func validate() throws {
            if device, browser { throw ValidationError("--device and --browser exclude each other.") }
        }

        func run() async throws {
            let context = try common.context
            let link = LinkIdentity(issuer: issuer, clientID: clientID, method: device ? .device : browser ? .browser : nil)
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
