// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayProtocol
import RelayServer

struct ResourceServerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resource-server",
        abstract: localized("Let other services ask the relay's own issuer about tokens (introspection, RFC 7662)."),
        subcommands: [Add.self, List.self, Remove.self]
    )

    private struct Shown: Encodable {
        var name: String
        var secret: String?
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Register a service, and print the secret with which it asks."),
            discussion: localized("The secret is printed only now. A service that is already registered gets a new one.")
        )

        @Argument(help: .text("The service's name, its user name for HTTP Basic: letters, digits and -._~, at most 64.")) var name: String
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            guard case .secret(let secret) = try await administer(.addResourceServer(name), settings.read()) else {
                throw AdminError.unknownAnswer
            }
            try json ? printJSON(Shown(name: name, secret: secret.exposed)) : print(secret.exposed)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("List the registered services."))

        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            guard case .resourceServers(let names) = try await administer(.listResourceServers, settings.read()) else {
                throw AdminError.unknownAnswer
            }
            if json { return try printJSON(names.map { Shown(name: $0) }) }
            for name in names { try print(asIs: name) }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("Remove a service: it can no longer ask."))

        @Argument(help: .text("The service's name.")) var name: String
        @Flag(help: .text("Print a JSON object.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            _ = try await administer(.removeResourceServer(name), settings.read())
            if json { try printJSON(Shown(name: name)) }
        }
    }
}
