// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import RelayAgent

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Let programs use the API of this device's agent.",
        discussion: "docs/api.md describes the API and what each scope allows.",
        subcommands: [TokenAddCommand.self, TokenListCommand.self, TokenRemoveCommand.self]
    )
}

struct TokenAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Make a token for a program. It is printed once."
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: "A name for the token, such as the program's.") var name: String
    @Option(
        help: ArgumentHelp(
            "What it may do: \(APIScope.allCases.map(\.rawValue).joined(separator: ", ")). Repeat the option for more.",
            valueName: "scope"
        )
    )
    var scope: [APIScope] = []
    @Option(help: ArgumentHelp("Only for this device: its whole id. Repeat the option for more.", valueName: "id"))
    var device: [String] = []
    @Option(help: ArgumentHelp("Only for URIs of this scheme. Repeat the option for more.", valueName: "scheme"))
    var scheme: [String] = []
    @Option(help: ArgumentHelp("Only for calls of this service. Repeat the option for more.", valueName: "name"))
    var service: [String] = []
    @Option(help: ArgumentHelp("How long it is valid: a number and s, m, h, d or y; at most 1y.", valueName: "time"))
    var expires: String = "1y"

    func validate() throws {
        guard !scope.isEmpty else { throw ValidationError("Name what the token may do, such as --scope launch.") }
        guard LifeText.duration(expires) != nil else { throw ValidationError("--expires is a number and s, m, h, d or y, at most 1y.") }
    }

    func run() async throws {
        let context = try common.context
        let add = TokenAdd(
            name: name,
            scopes: scope,
            devices: device,
            schemes: scheme,
            services: service,
            life: LifeText.duration(expires)
        )
        try await add.confirm(context)
        try context.console.print(try await add.run(context))
    }
}

extension APIScope: ExpressibleByArgument {}

struct TokenListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "list", abstract: "List the tokens, without their secrets.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await TokenList().run(context))
    }
}

struct TokenRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "remove", abstract: "End a token at once.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "The token's name or id.") var token: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await TokenRemove(id: token).run(context))
    }
}
