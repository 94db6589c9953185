// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting

/// The tables of docs/cli.md.
struct CommandLineDocument {
    private let rows: [[String]]

    init() throws {
        rows = try Project.text("docs/cli.md").split(separator: "\n").filter { $0.hasPrefix("| ") }.map { line in
            line.dropFirst().replacing("\\|", with: "¦").split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    /// The rows of the table with this first heading cell.
    private func table(_ heading: String) -> [[String]] {
        let after = rows.drop { $0.first != heading }.dropFirst(2)
        return Array(after.prefix { row in !["command", "object", "exit", "file"].contains(row.first ?? "") })
    }

    struct Fields: Equatable {
        var required: Set<String> = []
        var optional: Set<String> = []
    }

    /// The objects that commands print, including nested ones.
    var objects: [String] { table("object").compactMap(\.first) }

    /// The fields of an object.
    func fields(of object: String) -> Fields? {
        guard let row = table("object").first(where: { $0.first == object }), row.count == 2 else { return nil }
        var fields = Fields()
        for match in row[1].matches(of: /`([A-Za-z]+)`(\?)?/) {
            if match.2 == nil { fields.required.insert(String(match.1)) } else { fields.optional.insert(String(match.1)) }
        }
        return fields
    }

    /// The error codes of an area with their exit codes.
    func exitCodes(of area: String) -> [String: Int32] {
        var codes: [String: Int32] = [:]
        for row in table("exit") where row.count == 3 {
            for part in row[2].split(separator: ";") where part.trimmingCharacters(in: .whitespaces).hasPrefix("\(area): ") {
                for match in part.matches(of: /`([A-Za-z]+)`/) { codes[String(match.1)] = Int32(row[0]) }
            }
        }
        return codes
    }

    /// The names of the commands, without options. One that has subcommands may have several rows.
    var commands: [String] {
        let names = table("command").compactMap { $0.first?.firstMatch(of: /`([a-z]+)/).map { String($0.1) } }
        return names.enumerated().filter { $0.offset == 0 || names[$0.offset - 1] != $0.element }.map(\.element)
    }
}
