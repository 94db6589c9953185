// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage
import Testing

/// Statements and rows, in SQLite.
@Suite struct SQLDatabaseTests {
    /// Reads the first column.
    private func numbers(_ db: Database, _ sql: String, _ values: [(any SQLParameter)?] = []) throws -> [Int64] {
        try db.rows(sql, values) { try $0.integer(0) }
    }

    private func write(_ body: (Database) throws -> Void) throws { try DatabaseQueue().write { try body($0) } }

    @Test func valuesAreReadUnchanged() throws {
        try write { (db) throws -> Void in
            for number in [Int64.min, -1, 0, 1, .max] {
                #expect(try numbers(db, "SELECT ?", [number]) == [number])
            }
            for text in ["", "a", "\u{1}", "e\u{301}", "\u{E9}", "\u{FEFF}x", String(repeating: "x", count: 100_000)] {
                let found = try db.first("SELECT ?, CAST(? AS BLOB)", [text, text]) { (try $0.text(0), try $0.bytes(1)) }
                #expect(found.map { Array($0.0.utf8) } == Array(text.utf8) && found?.1 == Array(text.utf8))
            }
            for bytes in [[], [0], [1, 0, 255]] as [[UInt8]] {
                let found = try db.first("SELECT ?", [Data(bytes)]) { try $0.bytes(0) }
                #expect(found == bytes)
            }
            let flags = try db.first("SELECT ?, ?", [true, false]) { [try $0.flag(0), try $0.flag(1)] }
            #expect(flags == [true, false])
            let null = try db.first("SELECT ?, 7", [nil]) { (try $0.optional(0, $0.integer), try $0.optional(1, $0.integer)) }
            #expect(null.map { $0.0 == nil && $0.1 == 7 } == true)
        }
    }

    /// What another program, or a damaged file, has put there.
    @Test(arguments: ["NULL", "1", "1.5", "'a'", "x'00'"]) func columnOfAnotherTypeIsAnError(_ value: String) throws {
        try write { (db) throws -> Void in
            func fails<Value>(_ read: (SQLiteRow) throws -> Value) throws -> Bool {
                do {
                    _ = try db.rows("SELECT \(value)", read)
                    return false
                } catch is ColumnError {
                    return true
                }
            }
            let failures = try [
                fails { try $0.integer(0) }, fails { try $0.flag(0) }, fails { try $0.text(0) }, fails { try $0.bytes(0) },
                // None has the size of these.
                fails { try $0.digest(0) }, fails { try $0.commandID(0) },
            ]
            #expect(failures == [value != "1", value != "1", value != "'a'", value != "x'00'", true, true])
        }
    }

    @Test func statementIsUsableAfterAnErrorInTheMiddle() throws {
        try write { (db) throws -> Void in
            let sql = "SELECT value FROM json_each(?)"
            #expect(throws: ColumnError.self) { try numbers(db, sql, ["[1, \"a\", 3]"]) }
            #expect(try numbers(db, sql, ["[1, 2]"]) == [1, 2])
            #expect(throws: TextError.self) { try db.execute(sql, ["a\0b"]) }
            #expect(throws: DatabaseError.self) { try db.execute(sql, []) }
            #expect(try numbers(db, sql, ["[3]"]) == [3])
        }
    }

    @Test func changesAreCounted() throws {
        try write { (db) throws -> Void in
            try db.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)", [])
            #expect(try db.changes("INSERT INTO numbers VALUES (?), (?)", [1, 2]) == 2)
            #expect(try db.changes("INSERT INTO numbers VALUES (?) ON CONFLICT (number) DO NOTHING", [1]) == 0)
            #expect(try db.changes("UPDATE numbers SET number = number + 10", []) == 2)
            #expect(try db.changes("DELETE FROM numbers WHERE number = ?", [11]) == 1)
            #expect(try numbers(db, "SELECT number FROM numbers") == [12])
        }
    }

    @Test func bytesAreFoundInAColumn() throws {
        try write { (db) throws -> Void in
            let sql = "SELECT \(Database.contains("bytes")) FROM (SELECT CAST('a-name-z' AS BLOB) AS bytes)"
            #expect(try numbers(db, sql, [Data("name".utf8)]) == [1])
            #expect(try numbers(db, sql, [Data("Name".utf8)]) == [0])
        }
    }
}
