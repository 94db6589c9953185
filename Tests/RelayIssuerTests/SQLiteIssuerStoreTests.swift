// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage
import Testing

@testable import RelayIssuer

@Suite struct SQLiteIssuerStoreTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    var keyPath: String { test.directory + "/issuer.key" }

    func mode(_ name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: test.directory + "/" + name)
        return try #require((attributes[.posixPermissions] as? NSNumber)?.intValue)
    }

    @Test func onlyTheOwnerMayReadTheFiles() async throws {
        _ = try await test.issuer.createUser(name: "Ada")
        let names = try FileManager.default.contentsOfDirectory(atPath: test.directory)
        #expect(Set(names).isSuperset(of: ["issuer.key", "issuer.sqlite"]))
        for name in names { #expect(try mode(name) == 0o600, "\(name)") }
        #expect(try Data(contentsOf: URL(fileURLWithPath: keyPath)).count == 32)
    }

    @Test func keyFileReadableByOthersIsRejected() throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: keyPath)
        #expect(throws: IssuerError.masterKeyExposed(path: keyPath)) { try test.make() }
    }

    @Test func missingKeyIsNotReplacedIfADatabaseExists() throws {
        try FileManager.default.removeItem(atPath: keyPath)
        #expect(throws: IssuerError.masterKeyMissing(path: keyPath)) { try test.make() }
        #expect(!FileManager.default.fileExists(atPath: keyPath))
    }

    @Test func damagedOrForeignKeyIsRejected() throws {
        for count in [0, 31, 33] {
            try Data(repeating: 1, count: count).write(to: URL(fileURLWithPath: keyPath))
            #expect(throws: IssuerError.masterKeyDamaged(path: keyPath)) { try test.make() }
        }
        try Data(repeating: 1, count: 32).write(to: URL(fileURLWithPath: keyPath))
        #expect(throws: IssuerError.wrongMasterKey) { try test.make() }
    }

    @Test func symbolicLinkAsKeyFileIsRejected() throws {
        try FileManager.default.moveItem(atPath: keyPath, toPath: keyPath + ".old")
        try FileManager.default.createSymbolicLink(atPath: keyPath, withDestinationPath: keyPath + ".old")
        #expect(throws: IssuerError.masterKeyUnusable(StorageError(.notReadable, path: keyPath))) { try test.make() }
    }

    @Test func missingDirectoryIsAnError() {
        let settings = Issuer.Settings(origins: [TestIssuer.origin], audience: "relay")
        #expect(throws: IssuerError.masterKeyUnusable(StorageError(.notWritable, path: test.directory + "/none/issuer.key"))) {
            try Issuer.open(test.directory + "/none", settings: settings, now: { 0 }, logger: test.logger)
        }
    }

    /// While the relay stops, requests are still under way.
    @Test func aClosedDatabaseIsAnError() async throws {
        try test.issuer.close()
        await #expect(throws: IssuerError.self) { try await test.issuer.users() }
        await #expect(throws: IssuerError.self) { try await test.issuer.createUser(name: "Ada") }
        try test.reopen()
        #expect(try await test.issuer.users().isEmpty)
    }

    @Test func readTransactionCannotWrite() async throws {
        await #expect(throws: IssuerError.self) {
            try await test.issuer.store.read {
                try $0.db.execute(sql: "INSERT INTO user (subject, name, created) VALUES ('0123456789abcdef', 'Ada', 0)")
            }
        }
        #expect(try await test.issuer.users().isEmpty)
        _ = try await test.issuer.createUser(name: "Ada")
    }

    @Test func commitsAreFlushedToDisk() async throws {
        let (level, mode) = try await test.issuer.store.read { records in
            (try Int.fetchOne(records.db, sql: "PRAGMA synchronous"), try String.fetchOne(records.db, sql: "PRAGMA journal_mode"))
        }
        #expect(level == 2)
        #expect(mode == "wal")
    }

    @Test func schemaRejectsInvalidRows() async throws {
        let statements = [
            "INSERT INTO invitation (code, subject, expires) VALUES (zeroblob(32), 'nobody', 0)",
            "INSERT INTO invitation (code, subject, expires) VALUES (zeroblob(31), (SELECT subject FROM user), 0)",
            "INSERT INTO invitation (code, subject, expires, key) VALUES (zeroblob(32), (SELECT subject FROM user), 0, 'k')",
            "INSERT INTO user (subject, name, created) VALUES ('0123456789abcdef', '', 0)",
            "INSERT INTO user (subject, name, created) VALUES ('0123456789abcdef', 'name', 'soon')",
            "INSERT INTO seal (one, sealed) VALUES (2, zeroblob(1))",
        ]
        _ = try await test.issuer.createUser(name: "Ada")
        for statement in statements {
            await #expect(throws: IssuerError.self, "\(statement)") {
                try await test.issuer.store.write { try $0.db.execute(sql: statement) }
            }
        }
    }

    @Test func noCodeTokenOrPrivateKeyIsInAnyFile() async throws {
        let device = TestDevice()
        let subject = try await test.issuer.createUser(name: "Ada")
        let code = try await test.issuer.invite(subject: subject)
        let joined = try await device.join(test, code: code)
        let refreshed = try await device.refresh(test, joined.refreshToken)
        let signer = try await test.issuer.keyRing.signer(at: test.now)
        let texts = [code.exposed, try #require(joined.refreshToken).exposed, try #require(refreshed.refreshToken).exposed]
        var needles = [Data(signer.key.rawRepresentation)]
        for text in texts {
            needles.append(Data(text.utf8))
            // The file contains the family's id, but must not contain the MAC at the end of the token.
            needles.append(Data(try #require(Base64.url.decode(text)).suffix(text.utf8.count == RefreshToken.characters ? 32 : 16)))
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: test.directory) {
            let contents = try Data(contentsOf: URL(fileURLWithPath: test.directory + "/" + name))
            for needle in needles { #expect(contents.range(of: needle) == nil, "\(name)") }
        }
    }

    @Test func expiredLoginsAndInvitationsAreDeleted() async throws {
        let device = TestDevice()
        let subject = try await test.issuer.createUser(name: "Ada")
        _ = try await device.join(test, code: test.issuer.invite(subject: subject))
        test.pass(RefreshFamily.idleLife)
        _ = try await test.issuer.invite(subject: subject)
        let counts = try await test.issuer.store.read { records in
            try ["login", "invitation"].map { try Int.fetchOne(records.db, sql: "SELECT count(*) FROM \($0)") }
        }
        #expect(counts == [0, 1])
    }
}

extension IssuerTransaction {
    /// What only SQLite has.
    fileprivate var db: Database {
        get throws { try #require(self as? SQLIssuerTransaction<Database>).database }
    }
}
