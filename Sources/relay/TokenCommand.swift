// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayAgent

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: localized("Let programs use the API of this device's agent."),
        discussion: localized("docs/api.md describes the API and what each scope allows."),
        subcommands: [TokenAddCommand.self, TokenListCommand.self, TokenRemoveCommand.self]
    )
}

struct TokenAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: localized("Make a token for a program. It is printed once.")
    )

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("A name for the token, such as the program's.")) var name: String
    @Option(
        help: ArgumentHelp(
            localized("What it may do: \(APIScope.allCases.map(\.rawValue).joined(separator: ", ")). Repeat the option for more."),
            valueName: "scope"
        )
    )
    var scope: [APIScope] = []
    @Option(help: ArgumentHelp(localized("Only for this device: its whole id. Repeat the option for more."), valueName: "id"))
    var device: [String] = []
    @Option(help: ArgumentHelp(localized("Only for URIs of this scheme. Repeat the option for more."), valueName: "scheme"))
    var scheme: [String] = []
    @Option(help: ArgumentHelp(localized("Only for calls of this service. Repeat the option for more."), valueName: "name"))
    var service: [String] = []
    @Option(help: ArgumentHelp(localized("How long it is valid: a number and s, m, h, d or y; at most 1y."), valueName: "time"))
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
    static let configuration = CommandConfiguration(commandName: "list", abstract: localized("List the tokens, without their secrets."))

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        try context.console.print(try await TokenList().run(context))
    }
}

struct TokenRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "remove", abstract: localized("End a token at once."))

    @OptionGroup var common: CommonOptions
    @Argument(help: .text("The token's name or id.")) var token: String

    func run() async throws {
        let context = try common.context
        try context.console.print(try await TokenRemove(id: token).run(context))
    }
}
