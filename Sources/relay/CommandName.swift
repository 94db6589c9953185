// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser

/// Checks the names of commands.
enum CommandName {
    /// Suggests the command that a misspelt name (the first word, or the argument of `help`) may mean.
    /// - Throws: `ValidationError` if there is no such command.
    static func check(_ words: [String], of root: any ParsableCommand.Type) throws {
        var command = root
        for (index, word) in words.enumerated() {
            if index == 0, word == "help" { continue }
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, word.utf8.first != UInt8(ascii: "-") else { return }
            guard let next = subcommands.first(where: { ([$0._commandName] + $0.configuration.aliases).contains(word) }) else {
                // The agent has options and no arguments besides its subcommands.
                let like = closest(to: word, in: subcommands.map { $0._commandName })
                let hint = like.map { "; did you mean '\($0)'?" } ?? "; see '\(root._commandName) --help'"
                throw ValidationError("There is no command '\(word)'\(hint)")
            }
            command = next
        }
    }

    /// The closest name within an edit distance of two.
    static func closest(to word: String, in names: [String]) -> String? {
        let all = names.map { (name: $0, distance: distance(Array(word.utf8.prefix(32)), Array($0.utf8))) }
        return all.filter { $0.distance <= 2 && $0.distance < $0.name.utf8.count }.min { $0.distance < $1.distance }?.name
    }

    /// The edit distance (Levenshtein) in bytes.
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var row = Array(0...right.count)
        for (line, byte) in left.enumerated() {
            var diagonal = row[0]
            row[0] = line + 1
            for (column, other) in right.enumerated() {
                let change = diagonal + (byte == other ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(change, row[column] + 1, diagonal + 1)
            }
        }
        return row[right.count]
    }
}
