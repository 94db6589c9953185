// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayProtocol
import RelayServer

struct LimitsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "limits",
        abstract: localized("Print every limit with its value under these settings."),
        discussion: localized("`relayd serve --limit NAME=VALUE` sets one; so does the file of --config.")
    )

    @Flag(help: .text("Print a JSON object from limit name to value.")) var json = false
    @OptionGroup var settings: DataDirectoryOptions

    func run() async throws {
        let limits = try settings.read().limits
        if json { return try printJSON(Dictionary(uniqueKeysWithValues: Limit.allCases.map { ($0.rawValue, limits[$0]) })) }
        let width = Limit.allCases.map(\.rawValue.count).max() ?? 0
        for limit in Limit.allCases {
            let padding = String(repeating: " ", count: width - limit.rawValue.count)
            let changed = limits[limit] == limit.defaultValue ? "" : "  (default \(limit.defaultValue))"
            try print(asIs: "\(limit.rawValue)\(padding)  \(localized(limit.unit.text(limits[limit])))\(localized(changed))")
        }
    }
}

extension Limit.Unit {
    /// A value as a person reads it.
    func text(_ value: Int) -> String {
        switch self {
        case .bytes: "\(value) bytes"
        case .characters: "\(value) characters"
        case .count: "\(value)"
        case .perSecond: "\(value) per second"
        case .seconds: "\(value) seconds"
        }
    }
}
