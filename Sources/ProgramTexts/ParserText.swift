// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What ArgumentParser says. The texts of the commands in a help are translated before it wraps them, so that only its own ones are left.
package enum ParserText {
    static let help = [
        "OVERVIEW: {1}", "USAGE: {1}", "Usage: {1}", "ARGUMENTS:", "OPTIONS:", "SUBCOMMANDS:", "Help:  {1}", "(default)", "(default:",
        "(values:",
        "; default:", "Show the version.", "Show help information.", "Show subcommand help information.",
        "See '{1}' for detailed help.", "See '{1}' for more information.",
    ]

    static let errors = [
        "Error: {1}", "Unknown option '{1}'", "Unknown option '{1}'. Did you mean '{2}'?", "Invalid option: {1}",
        "Missing required subcommand.",
        "Missing value for '{1}'", "The option '{1}' does not take any value, but '{2}' was specified.", "Unexpected argument '{1}'",
        "{1} unexpected arguments: {2}", "Value to be set with {1} had already been set with {2}", "flag {1}", "position {1}", "{1} in {2}",
        "Missing expected argument '{1}'", "Missing one of: {1}", "The value '{1}' is invalid for '{2}'",
        "The value '{1}' is invalid for '{2}': {3}", "The value '{1}' is invalid for '{2}'. Please provide one of {3}.",
        "The value '{1}' is invalid for '{2}'. Please provide one of the following:\n{3}",
    ]

    private static let parser = Translation.current.only(Set(help))

    /// Translates a help, or an error with the usage, for the person at the terminal.
    package static func translated(_ text: String) -> String {
        guard !parser.isEnglish else { return text }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        // The message of an error is one of the program's texts, of one line or several.
        let message = text.hasPrefix("Error: ") ? lines.prefix { !$0.hasPrefix("Help: ") && !$0.hasPrefix("Usage: ") } : []
        let translated = message.isEmpty ? [] : [localized(message.joined(separator: "\n"))]
        return (translated + lines.dropFirst(message.count).map { line($0) }).joined(separator: "\n")
    }

    /// A default stands behind the help of an option, and is wrapped with it.
    private static func line(_ line: Substring) -> String {
        ["(default)", "(default:", "(values:", "; default:"].reduce(parser.text(String(line))) { $0.replacing($1, with: parser.text($1)) }
    }
}
