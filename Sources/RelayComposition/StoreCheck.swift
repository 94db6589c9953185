// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
package import RelayServer
import RelayStorage

#if Postgres
import RelayPostgres
#endif

/// Decodes every row of a relay's databases, which may be in use. It writes nothing.
package struct StoreCheck {
    /// A row that cannot be decoded.
    package struct Damage: Codable, Hashable, Sendable {
        package var table: String
        /// The row's key, never its content.
        package var key: String
    }

    /// How many rows each table has, by its name.
    package private(set) var rows: [String: Int] = [:]
    private let progress: (_ table: String, _ rows: Int) -> Void
    private let damaged: (Damage) throws -> Void

    /// - Parameters:
    ///   - progress: Is called after each row, with the number of the table's rows so far.
    ///   - damaged: Is called for each row that cannot be decoded.
    package static func run(
        _ configuration: RelayConfiguration,
        progress: @escaping (_ table: String, _ rows: Int) -> Void,
        damaged: @escaping (Damage) throws -> Void
    ) throws -> StoreCheck {
        let directory = try DataDirectory(configuration.dataDirectory, .existing).path
        let key = try RelayKey.load(in: directory)
        let master = try MasterKey(path: "\(directory)/\(Issuer.keyFileName)", mayCreate: false)
        var check = StoreCheck(progress: progress, damaged: damaged)
        switch configuration.store {
        case .dataDirectory:
            try RelayTables.snapshot(in: directory) { try check.checkRelay($0, key) }
            try IssuerTables.snapshot(in: directory) { try check.checkIssuer($0, master) }
        case .postgres(let uri):
            #if Postgres
            try PostgresLocation(uri).read(of: key.id) { database in
                try check.checkRelay(database, key)
                try check.checkIssuer(database, master)
            }
            #else
            throw ConfigurationError.withoutPostgres
            #endif
        }
        return check
    }

    private mutating func checkRelay(_ database: some StoreDatabase, _ key: RelayKey) throws {
        for check in database.relayChecks(with: key) { try run(check, on: database) }
    }

    private mutating func checkIssuer(_ database: some SQLDatabase, _ master: MasterKey) throws {
        for check in database.issuerChecks(with: master) { try run(check, on: database) }
    }

    private mutating func run<Database: SQLDatabase>(_ check: TableCheck<Database.ResultRow>, on database: Database) throws {
        let (table, progress, damaged) = (check.table.name, progress, damaged)
        var count = 0
        try check.run(on: database) {
            count += 1
            progress(table, count)
        } damaged: { key in
            try damaged(Damage(table: table, key: key))
        }
        rows[table] = count
    }
}
