// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol
package import RelayServer
import RelayStorage

/// New accounts, from a table that an operator has.
package struct AccountImport: Sendable {
    /// The limit of the table, in bytes.
    package static let maximumBytes = 4 << 20
    /// The limit of its rows.
    package static let maximumRows = 20_000
    /// How many bytes of accounts go into one request.
    private static let batchBytes = 24 << 10
    /// What an account, or one of its quotas, takes in a request, at most and without names.
    private static let entryBytes = 64

    /// With names as the accounts will have them, without surrounding white space.
    package let accounts: [AdminImport]

    private static let nameColumn = "name"

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

    /// - Parameter bytes: A table with the column `name`, and perhaps with columns of quotas. An empty field of a quota leaves it as it is.
    package init(_ bytes: [UInt8]) throws(Refused) {
        let table = CSVTable(bytes)
        var problems = table.problems
        let columns = [Self.nameColumn] + AccountQuotas.limits.map(\.rawValue)
        if let other = table.header.first(where: { name in !columns.contains { $0.utf8.elementsEqual(name.utf8) } }) {
            throw Refused(
                description:
                    "the first row names a column '\(DisplayText.sanitized(other))'; an account has only: \(columns.joined(separator: ", "))"
            )
        }
        guard table.header.contains(Self.nameColumn), Set(table.header).count == table.header.count else {
            let problem = "the first row has to name the column name, and each column once"
            throw Refused(description: ([problem] + problems.map(\.description)).joined(separator: "\n"))
        }
        guard table.rows.count <= Self.maximumRows else {
            throw Refused(description: "the table has more than \(Self.maximumRows) rows; divide it")
        }
        var (accounts, lines) = ([AdminImport](), [String: Int]())
        for row in table.rows {
            let fields = Dictionary(zip(table.header, row.fields)) { first, _ in first }
            guard let name = fields[Self.nameColumn].flatMap({ AccountName($0) }) else {
                problems.append(.init(line: row.line, IssuerError.nameInvalid.description))
                continue
            }
            if let other = lines.updateValue(row.line, forKey: name.key) {
                problems.append(.init(line: row.line, "it has the same name as line \(other)"))
            }
            do throws(QuotaChange.Refused) {
                let quotas = fields.filter { $0.key != Self.nameColumn && !$0.value.isEmpty }
                accounts.append(
                    AdminImport(name: name.text, quotas: try QuotaChange(parsing: quotas.map { "\($0)=\($1)" }.sorted(), reset: []))
                )
            } catch {
                problems.append(.init(line: row.line, "\(error)"))
            }
        }
        guard problems.isEmpty else {
            let lines = problems.sorted { $0.line < $1.line }.map(\.description)
            throw Refused(description: (lines + ["nothing was changed: correct the lines above"]).joined(separator: "\n"))
        }
        self.accounts = accounts
    }

    /// The accounts in parts that fit into a request each.
    package var batches: [[AdminImport]] {
        var (batches, bytes) = ([[AdminImport]](), 0)
        for account in accounts {
            // JSON escapes some characters of a name.
            let size = 2 * account.name.utf8.count + Self.entryBytes * (1 + account.quotas.values.count)
            if batches.isEmpty || bytes + size > Self.batchBytes {
                batches.append([])
                bytes = 0
            }
            batches[batches.count - 1].append(account)
            bytes += size
        }
        return batches
    }

    /// The names that accounts have, of these.
    /// - Parameter accounts: The names of all accounts.
    package func existing(among accounts: [String]) -> Set<String> {
        let keys = Set(accounts.compactMap { AccountName($0)?.key })
        return Set(self.accounts.map(\.name).filter { AccountName($0).map { keys.contains($0.key) } ?? false })
    }
}
