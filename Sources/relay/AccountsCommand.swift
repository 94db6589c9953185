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
        abstract: "Choose the account that commands use.",
        subcommands: [Use.self]
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

struct SessionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions",
        abstract: "Print this device's login, and where the account's other logins are listed."
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await Sessions().run(context))
    }
}
