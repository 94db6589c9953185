// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayStorage
import Testing

@Suite struct BoundValuesTests {
    @Test func textWithNULIsNotBound() throws {
        for text in ["\0", "a\0", "a\0b", "\0a"] {
            #expect(throws: TextError.self) { try StatementArguments.bound(1, text) }
            #expect(throws: TextError.self) { try StatementArguments.bound([text as String?]) }
            #expect(throws: TextError.self) { try StatementArguments.bound(Optional(text)) }
            #expect(throws: TextError.self) { try StatementArguments.bound(Substring(text).description) }
        }
    }

    @Test func valuesReachTheDatabaseUnchanged() throws {
        try DatabaseQueue().write { db in
            for text in ["", "a", "\u{1}", "\u{7F}", "e\u{301}", "\u{E9}", "\u{FEFF}x"] {
                let found = try Row.fetchOne(
                    db,
                    sql: "SELECT CAST(? AS BLOB), ?, ?, ?",
                    arguments: .bound(text, 7, nil as String?, Data([0, 1]))
                )
                let row = try #require(found)
                #expect((row[0] as Data?).map { [UInt8]($0) } ?? [] == Array(text.utf8))
                #expect(row[1] == 7 && (row[2] as DatabaseValue).isNull && row[3] == Data([0, 1]))
            }
        }
    }

    /// A text that another program has put there.
    @Test func databaseWithACutTextIsDamaged() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "bound-\(UUID().uuidString)").path
        try PrivateDirectory.make(directory)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { try $0.execute(sql: "CREATE TABLE \"a \"\" table\" (\"a \"\" name\" TEXT, data BLOB)") }
        let path = directory + "/test.sqlite"
        func change(_ sql: String) throws {
            let database = try DatabaseFile.open(path, migrator: migrator)
            try database.write { try $0.execute(sql: sql) }
            try database.close()
        }
        try change("INSERT INTO \"a \"\" table\" VALUES ('plain', x'610062')")
        try change("INSERT INTO \"a \"\" table\" VALUES (CAST(x'610062' AS TEXT), NULL)")
        #expect(throws: DatabaseFileError.damaged) { try DatabaseFile.open(path, migrator: migrator) }
    }
}
