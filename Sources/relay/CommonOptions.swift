// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import RelayAgent

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The options of every command.
struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The directory for keys and commands. Default: $DEVICE_RELAY_HOME, else $XDG_STATE_HOME/device-relay, else ~/.local/state/device-relay.",
            valueName: "directory"
        ),
        completion: .directory
    )
    var home: String?

    @Flag(help: "Print one JSON object for each result, errors included.")
    var json = false

    func validate() throws {
        if home?.isEmpty ?? false { throw ValidationError("--home must name a directory.") }
    }

    var context: AgentContext { Self.context(home: home, isJSON: json) }

    static func context(home: String?, isJSON: Bool) -> AgentContext {
        let environment = ProcessInfo.processInfo.environment
        return AgentContext(
            home: home.map { Home($0) } ?? Home(environment: environment),
            console: .standard(isJSON: isJSON, environment: environment)
        )
    }
}
