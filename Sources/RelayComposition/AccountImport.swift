// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol
import RelayStorage

/// The names of new accounts, from a table that an operator has.
package struct AccountImport: Sendable {
    /// The limit of the table, in bytes.
    package static let maximumBytes = 4 << 20
    /// The limit of its rows.
    package static let maximumRows = 20_000
    /// How many bytes of names go into one request.
    private static let batchBytes = 8 << 10

    /// As the accounts will have them, without surrounding white space.
    package let names: [String]

    /// Why a table is refused, with every bad row.
    package struct Refused: Error, CustomStringConvertible {
        package let description: String
    }

    /// - Parameter path: A file, or `-` for standard input.
    package init(reading path: String) throws { try self.init(Self.contents(of: path)) }

    private static func contents(of path: String) throws -> [UInt8] {
        guard let file = try StorageFile(reading: path == "-" ? "/dev/stdin" : path, isChosen: true) else {
            throw StorageError(.notReadable, path: path)
        }
        var bytes: [UInt8] = []
        while bytes.count <= maximumBytes {
            let piece = try file.next(64 << 10)
            if piece.isEmpty { return bytes }
            bytes += piece
        }
        throw Refused(description: "the table has more than \(maximumBytes >> 20) MiB; divide it")
    }

    /// - Parameter bytes: A table with the column `name`.
    package init(_ bytes: [UInt8]) throws(Refused) {
        let table = CSVTable(bytes)
        var problems = table.problems
        if let other = table.header.first(where: { !$0.utf8.elementsEqual("name".utf8) }) {
            throw Refused(description: "the first row names a column '\(DisplayText.sanitized(other))'; an account has only: name")
        }
        guard table.header.count == 1 else {
            throw Refused(
                description: (["the first row has to name the column: name"] + problems.map(\.description)).joined(separator: "\n")
            )
        }
        guard table.rows.count <= Self.maximumRows else {
            throw Refused(description: "the table has more than \(Self.maximumRows) rows; divide it")
        }
        var (names, lines) = ([String](), [String: Int]())
        for row in table.rows {
            guard let name = row.fields.first.flatMap({ AccountName($0) }) else {
                problems.append(.init(line: row.line, IssuerError.nameInvalid.description))
                continue
            }
            if let other = lines.updateValue(row.line, forKey: name.key) {
                problems.append(.init(line: row.line, "it has the same name as line \(other)"))
            }
            names.append(name.text)
        }
        guard problems.isEmpty else {
            let lines = problems.sorted { $0.line < $1.line }.map(\.description)
            throw Refused(description: (lines + ["nothing was changed: correct the lines above"]).joined(separator: "\n"))
        }
        self.names = names
    }

    /// The names in parts that fit into a request each.
    package var batches: [[String]] {
        var (batches, bytes) = ([[String]](), 0)
        for name in names {
            if batches.isEmpty || bytes + name.utf8.count > Self.batchBytes {
                batches.append([])
                bytes = 0
            }
            batches[batches.count - 1].append(name)
            bytes += name.utf8.count
        }
        return batches
    }

    /// The names that accounts have, of these.
    /// - Parameter accounts: The names of all accounts.
    package func existing(among accounts: [String]) -> Set<String> {
        let keys = Set(accounts.compactMap { AccountName($0)?.key })
        return Set(names.filter { AccountName($0).map { keys.contains($0.key) } ?? false })
    }
}
