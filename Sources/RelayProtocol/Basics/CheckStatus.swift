// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a check of `relay doctor` or `relayd doctor` found.
package enum CheckStatus: String, Codable, Sendable {
    /// The check passed.
    case ok
    /// It works, but with a limitation.
    case warning
    case failed
    /// The check could not run.
    case skipped

    /// The line of a check, and the line of its remedy if there is one.
    /// - Parameters:
    ///   - width: The characters of the longest name.
    ///   - translated: Translates the message and the advice. Status and name are codes.
    ///   - show: Emphasises the padded status.
    package func lines(
        name: String,
        width: Int,
        message: String,
        advice: String?,
        translated: (String) -> String = { $0 },
        show: (String) -> String = { $0 }
    ) -> [String] {
        func padded(_ text: String, _ count: Int) -> String { text + String(repeating: " ", count: max(0, count - text.count)) }
        let indent = String(repeating: " ", count: 7 + 2 + width + 2)
        return ["\(show(padded(rawValue, 7)))  \(padded(name, width))  \(translated(message))"]
            + (advice.map { ["\(indent)-> \(translated($0))"] } ?? [])
    }
}
