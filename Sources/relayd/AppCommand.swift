// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayComposition
import RelayServer

struct AppCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "app",
        abstract: localized("Manage cross-device app identities and their push credentials."),
        discussion: localized(
            """
            An identity is a domain of the apps' publisher. It joins the publisher's apps on different platforms, and holds the credentials \
            with which the relay wakes their devices. The identity `default` serves all other apps, and needs no proof. The commands need no \
            restart. They also work while no relay runs on the data directory.
            """
        ),
        subcommands: [List.self, Add.self, Remove.self, Verify.self, AppCredentialCommand.self],
        defaultSubcommand: List.self
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("List the identities with their apps and credentials, without secrets.")
        )

        @Flag(help: .text("Print a JSON array.")) var json = false
        @OptionGroup var settings: DataDirectoryOptions

        func run() async throws {
            guard case .apps(let apps) = try await administer(.listApps, settings.read()) else { throw AdminError.unknownAnswer }
            if json { return try printJSON(apps) }
            for app in apps { try app.printLines() }
        }
    }

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Add an identity, or apps to it."),
            discussion: localized("The domain then has to be proven for the added apps: the command prints what to publish.")
        )

        @Option(name: .customLong("app"), help: .app) var apps: [String] = []
        @OptionGroup var options: AppOptions

        func run() async throws {
            let app = try await options.change(.addApp(options.domain, apps: apps), .made)
            if !options.json, let app, app.verified == nil { try print(app.advice) }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: localized("Remove an identity with its credentials, or apps of it."))

        @Option(name: .customLong("app"), help: .app) var apps: [String] = []
        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.change(.removeApp(options.domain, apps: apps))
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Look for the proof of a domain. Its credentials are used once it is proven."),
            discussion: localized(
                """
                One of three is enough: https://DOMAIN/.well-known/device-relay.json or the original's \
                https://DOMAIN/cross-platform-app-identifiers lists the apps, or a TXT record of the domain has the text of `relayd app list`.
                """
            )
        )

        @OptionGroup var options: AppOptions

        func run() async throws {
            try await options.change(.verifyApp(options.domain))
        }
    }
}

/// What commands that change one identity have in common.
struct AppOptions: ParsableArguments {
    @Argument(help: .text("The identity: a domain, or default.")) var domain: String
    @Flag(help: .text("Print a JSON object.")) var json = false
    @OptionGroup var settings: DataDirectoryOptions

    /// Asks for a change of the identity, and prints it.
    @discardableResult
    func change(_ request: AdminRequest, _ use: DataDirectory.Use = .existing) async throws -> AdminApp? {
        guard case .app(let changed) = try await administer(request, settings.read(), use) else { throw AdminError.unknownAnswer }
        guard let app = changed else {
            if json { try printJSON([String: String]()) }
            return nil
        }
        if json { try printJSON(app) } else { try app.printLines() }
        return app
    }
}

extension ArgumentHelp {
    fileprivate static var app: ArgumentHelp {
        let platforms = AppIdentity.App.Platform.allCases.map(\.rawValue).joined(separator: ", ")
        return ArgumentHelp(localized("An app of the identity; may be repeated. Platforms: \(platforms)."), valueName: "platform=id")
    }
}

extension AdminApp {
    fileprivate func printLines() throws {
        let state = id == AppIdentity.defaultID ? "needs no proof" : verified == nil ? "not proven" : "proven"
        try print("\(id)  \(state)")
        for app in apps { try print("  \(app)\(verified != nil && unproven.contains(app) ? ", not proven" : "")") }
        for credential in credentials { try print("  \(credential.id)  \(credential.type), \(credential.label)") }
    }

    fileprivate var advice: String {
        """
        Publish one of these, then run: relayd app verify \(id)
          https://\(id)/.well-known/device-relay.json with {"apps": [\(list("id"))]}
          https://\(id)/cross-platform-app-identifiers with [\(list("application"))]
          a DNS record: \(id) TXT "\(record ?? "")"
        """
    }

    private func list(_ name: String) -> String {
        apps.compactMap { AppIdentity.App(parsing: $0) }
            .map { #"{"platform": "\#($0.platform.rawValue)", "\#(name)": "\#($0.id)"}"# }
            .joined(separator: ", ")
    }
}
