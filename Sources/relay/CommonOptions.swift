// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import BuildVersion
import Foundation
import ProgramTexts
import RelayAgent

/// The options of every command.
struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            localized(
                "The directory for keys and commands. Default: $DEVICE_RELAY_HOME, else $XDG_STATE_HOME/device-relay, else ~/.local/state/device-relay."
            ),
            valueName: "directory"
        ),
        completion: .directory
    )
    var home: String?

    @Option(
        help:
            .text(
                "The profile in this directory: one account at one relay. `relay profiles` lists them. Default: the one that `relay profile use` chose."
            ),
        completion: .profiles
    )
    var profile: String?

    @Flag(help: .text("Print one JSON object for each result, errors included."))
    var json = false

    @Flag(help: .text("Do not use the agent that runs for this directory: the command makes a connection of its own."))
    var noAgent = false

    func validate() throws {
        if home?.isEmpty ?? false { throw ValidationError("--home must name a directory.") }
        if let profile, (try? HomeAccounts.checked(profile)) == nil {
            throw ValidationError("--profile must be 1 to 32 lower-case letters, digits, - and _.")
        }
    }

    var context: AgentContext {
        get throws { try Self.context(home: home, profile: profile, isJSON: json, usesAgent: !noAgent) }
    }

    static func context(home: String?, profile: String?, isJSON: Bool, usesAgent: Bool = true) throws -> AgentContext {
        let environment = ProcessInfo.processInfo.environment
        let accounts = HomeAccounts(try home.map { Home($0) } ?? Home(environment: environment))
        return AgentContext(
            accounts: accounts,
            account: try profile ?? accounts.current(),
            console: .standard(isJSON: isJSON, environment: environment),
            version: BuildVersion.text,
            usesAgent: usesAgent
        )
    }
}

extension ArgumentHelp {
    /// The help of a device, or of one of its apps, as the target of a command.
    static let device = ArgumentHelp(
        localized("A device's name, its id or at least the first 4 characters of it; with /APP one of its apps."),
        valueName: "device[/app]"
    )
}
