// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayProtocol
import RelayServer

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

struct EndpointCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "endpoint",
        abstract: "List endpoints, and revoke the endpoint of a lost device.",
        discussion: "The relay has to run on the data directory.",
        subcommands: [List.self, Revoke.self],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the endpoints of an account, or of all.")

        @OptionGroup var settings: ConfigurationOptions
        @Argument(help: "The account's id or name. Default: all accounts.") var account: String?
        @Flag(help: "Print a JSON array.") var json = false

        func run() async throws {
            let request = AdminRequest(.listEndpoints, account: account)
            let endpoints = try await AdminSocket.ask(request, in: try settings.read().dataDirectory).endpoints ?? []
            if json {
                let encoder = JSONEncoder()
                encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
                print(String(decoding: try encoder.encode(endpoints), as: UTF8.self))
            } else {
                for endpoint in endpoints { print(Self.line(endpoint)) }
            }
        }

        private static func line(_ endpoint: AdminEndpoint) -> String {
            var facts = [endpoint.isConnected ? "connected" : "away"]
            if !endpoint.isEstablished { facts.append("not approved") }
            let joined = Date(timeIntervalSince1970: Double(endpoint.joined) / 1_000).formatted(.iso8601)
            facts.append("joined \(joined)" + (endpoint.address.map { " from \($0)" } ?? ""))
            if let inviter = endpoint.invitedBy { facts.append("invited by \(inviter.prefix(8))") }
            return "\(endpoint.id)  \(DisplayText.sanitized(endpoint.account))  \(DisplayText.sanitized(endpoint.name))  "
                + facts.joined(separator: ", ")
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke an endpoint for ever, and end its logins.",
            discussion: "Use it for a lost device that no other device of its owner can revoke. It cannot be undone."
        )

        @OptionGroup var settings: ConfigurationOptions
        @Argument(help: "The endpoint's id, as `relayd endpoint list` prints it.") var endpoint: String

        func run() async throws {
            let request = AdminRequest(.revokeEndpoint, endpoint: endpoint)
            _ = try await AdminSocket.ask(request, in: try settings.read().dataDirectory)
        }
    }
}
