// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayIssuer

/// A text is one thing to a limit and another to a database: attempts to find an account, a client or a secret by a text that is not its name.
@Suite struct NameAttackTests {
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// Multiplies the number of generated texts.
    static let sweep = Sweep.count(1, full: 20)

    static let controls = TextVariants.controls

    static func variant(of text: String, using random: inout SeededGenerator) -> String { TextVariants.variant(of: text, using: &random) }

    // MARK: Guessing

    /// Each text that finds the account counts as its name, and no other text finds it.
    @Test(arguments: ["alice", "Zoë", "K9 & Ω"]) func variantsOfANameShareItsAttempts(name: String) async throws {
        let seed = Sweep.seed
        let subject = try await test.issuer.createUser(name: name)
        try await test.issuer.setPassword(subject: subject, to: Secret(TestBrowser.password))
        try await test.browse { client in
            var random = SeededGenerator(seed: seed)
            // A browser for each guess: only the limits of account and address join them.
            let cut = (0..<(2 * AttemptLimit.free)).map { "\(name)\0\($0)" }
            let names = cut + ["\(name)\0", "\(name)\0x", "\0\(name)", " \(name) ", name.uppercased()]
            let generated = (0..<(60 * Self.sweep)).map { _ in Self.variant(of: name, using: &random) }
            for (number, typed) in (names + generated).enumerated() {
                let page = try await TestBrowser(client).signIn(name: typed, password: "guess number \(number)")
                #expect(page.status != 303, "\(typed.debugDescription), seed \(seed)")
            }
            // The address has used its attempts up, for every way to write the name.
            for typed in names + [name] {
                #expect(try await TestBrowser(client).signIn(name: typed).status != 303, "\(typed.debugDescription), seed \(seed)")
            }
        }
        let failed = try await test.issuer.events(of: subject).filter { $0.kind == .signInFailed }.map(\.count).reduce(0, +)
        #expect(failed <= AttemptLimit.free, "seed \(seed)")
    }

    @Test func variantsOfANameShareTheAttemptsOfItsRecoveryCodes() async throws {
        let subject = try await test.ada()
        try await test.browse { client in
            let owner = TestBrowser(client)
            try await owner.setUp(test, subject: subject)
            let codes = try await owner.makeCodes()
            let attacker = TestBrowser(client, address: "203.0.113.9")
            for number in 0..<(2 * AttemptLimit.free) {
                _ = try await attacker.get("/recover")
                let name = number.isMultiple(of: 2) ? "ADA" : "Ada\0\(number)"
                _ = try await attacker.post(
                    "/recover",
                    ["name": name, "code": "BBBB-BBBB-BBBB-BBB\(["B", "C", "D", "F", "G"][number / 2])"]
                )
            }
            _ = try await attacker.get("/recover")
            for name in ["Ada", "ada ", "Ada\0"] {
                #expect(try await attacker.post("/recover", ["name": name, "code": codes[0]]).location == nil)
            }
        }
    }

    @Test func longNamesAndPasswordsAreRefusedBeforeTheHash() async throws {
        try await test.browse { client in
            for _ in 0..<(2 * AttemptLimit.free) {
                for name in [String(repeating: "a", count: 65), String(repeating: "é", count: 2_000), "", "\u{200D}"] {
                    let page = try await TestBrowser(client).signIn(name: name)
                    #expect(page.status == 401)
                }
            }
        }
        // Only attempts that are hashed count.
        #expect(try await test.attemptRows() == 0)
    }

    // MARK: What is found

    /// Forms, queries and Basic credentials: what is decoded is what was encoded, or nothing.
    @Test func decodedTextsAreTheEncodedOnesOrRefused() throws {
        let seed = Sweep.seed
        var random = SeededGenerator(seed: seed)
        let texts =
            Self.controls.map { "a\($0)b" } + (0..<(1_000 * Self.sweep)).map { _ in Self.variant(of: "alice K\u{E9}", using: &random) }
        for text in texts {
            let isControlled = text.unicodeScalars.contains { $0.properties.generalCategory == .control }
            let pairs = "\(FormCoding.encode("name"))=\(FormCoding.encode(text))"
            let found = (try? Form(parsing: Array(pairs.utf8)))?["name"]
            #expect(
                found.map { Array($0.utf8) } == (isControlled || text.isEmpty ? nil : Array(text.utf8)),
                "\(text.debugDescription), seed \(seed)"
            )
            let raw = try? Form(
                parsing: Array("name=x".utf8) + Array("\(text)".utf8.filter { $0 != 0x25 && $0 != 0x26 && $0 != 0x2B && $0 != 0x3D })
            )
            if isControlled { #expect(raw == nil, "\(text.debugDescription), seed \(seed)") }
            let header = "Basic " + Data("\(FormCoding.encode(text)):\(FormCoding.encode(text))".utf8).base64EncodedString()
            let credentials = BasicCredentials(authorization: [header])
            #expect(
                credentials.map { Array($0.name.utf8) } == (isControlled ? nil : Array(text.utf8)),
                "\(text.debugDescription), seed \(seed)"
            )
            #expect(credentials.map { Array($0.secret.exposed.utf8) } == (isControlled ? nil : Array(text.utf8)), "seed \(seed)")
        }
    }

    @Test func jsonStringsAreReadByteForByteOrRefused() throws {
        let seed = Sweep.seed
        var random = SeededGenerator(seed: seed)
        let texts =
            Self.controls.map { "a\($0)b" } + (0..<(1_000 * Self.sweep)).map { _ in Self.variant(of: "alice K\u{E9}", using: &random) }
        for text in texts {
            let json = try JSONValue(parsing: Array(try JSONEncoder().encode([text])))
            let isControlled = text.unicodeScalars.contains { $0.properties.generalCategory == .control }
            let found = try? [String](json: json)
            #expect(
                found.map { $0.map { Array($0.utf8) } } == (isControlled ? nil : [Array(text.utf8)]),
                "\(text.debugDescription), seed \(seed)"
            )
        }
    }

    /// The rows that are looked up by a text.
    @Test func rowsAreFoundByTheirOwnTextOnly() async throws {
        let seed = Sweep.seed
        let subject = try await test.ada()
        try await test.issuer.store.write { records in
            var random = SeededGenerator(seed: seed)
            let texts =
                ["photos", "Phot\u{F6}s", "K"] + (0..<(200 * Self.sweep)).map { _ in Self.variant(of: "photo K\u{E9}", using: &random) }
            var stored: Set<[UInt8]> = []
            for text in texts where !text.isEmpty && text.unicodeScalars.count <= 64 {
                if text.utf8.contains(0) {
                    #expect(throws: (any Error).self, "\(text.debugDescription), seed \(seed)") {
                        try records.setResourceServer(text, secret: Digest256(hashing: Array(text.utf8)))
                    }
                    #expect(throws: (any Error).self) { try records.secret(ofResourceServer: text) }
                    #expect(throws: (any Error).self) { try records.user(text) }
                    #expect(throws: (any Error).self) { try records.family(session: text) }
                } else {
                    #expect(try records.secret(ofResourceServer: text) == nil || stored.contains(Array(text.utf8)), "seed \(seed)")
                    try records.setResourceServer(text, secret: Digest256(hashing: Array(text.utf8)))
                    stored.insert(Array(text.utf8))
                }
            }
            for bytes in stored {
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(try records.secret(ofResourceServer: text) == Digest256(hashing: bytes), "\(text.debugDescription), seed \(seed)")
            }
            #expect(throws: (any Error).self) { try records.user(subject + "\0") }
        }
    }

    // MARK: Names

    /// A name is folded once and for all, and shows no more than its own characters.
    @Test func foldingIsStable() {
        let all = (0...0x10FFFF).lazy.compactMap(Unicode.Scalar.init)
        for scalar in all
        where scalar.properties.generalCategory != .unassigned && (Self.sweep > 1 || scalar.value % 7 == 0 || scalar.value < 0x600) {
            let folded = AccountName.folded("a\(scalar)b")
            #expect(AccountName.folded(folded).utf8.elementsEqual(folded.utf8), "U+\(String(scalar.value, radix: 16))")
            let upper = AccountName.folded("a\(scalar.properties.uppercaseMapping)b")
            let lower = AccountName.folded("a\(scalar.properties.lowercaseMapping)b")
            #expect(upper.utf8.elementsEqual(folded.utf8) && lower.utf8.elementsEqual(folded.utf8), "U+\(String(scalar.value, radix: 16))")
        }
    }

    @Test func namesThatPeopleTakeForOneAreOne() async throws {
        let issuer = try test.issuer
        _ = try await issuer.createUser(name: " Zo\u{EB} ")
        #expect(try await issuer.users().map(\.name) == ["Zo\u{EB}"])
        for name in ["ZOË", "zoe\u{308}", "Ｚｏë", "zo\u{200D}ë", "\u{A0}zoë", "Zoë"] {
            await #expect(throws: IssuerError.nameTaken, "\(name)") { try await issuer.createUser(name: name) }
        }
        let other = try await issuer.createUser(name: "Zoe")
        await #expect(throws: IssuerError.nameTaken) { try await issuer.rename(other, to: "ZOË") }
        try await issuer.rename(other, to: "ZOE")
        #expect(try await issuer.users().map(\.name).sorted() == ["ZOE", "Zoë"])
    }

    /// Two accounts of an older database, whose names are now one.
    @Test func namesOfAnOlderDatabaseStayApart() throws {
        let database = try DatabaseQueue()
        try SQLiteIssuerStore.migrator.migrate(database, upTo: "1 users, passwords, browsers, invitations, logins, keys")
        try database.write { db in
            for (number, name) in ["Zo\u{EB}", "ZO\u{CB}", "Zoe", "zo\u{EB} (2)"].enumerated() {
                try db.execute(
                    sql: "INSERT INTO user (subject, name, created) VALUES (?, ?, ?)",
                    arguments: ["subject-of-user-\(number)", name, number]
                )
            }
        }
        try SQLiteIssuerStore.migrator.migrate(database)
        try database.read { db in
            let names = try String.fetchAll(db, sql: "SELECT name FROM user ORDER BY created")
            #expect(names == ["Zo\u{EB}", "ZO\u{CB} (2)", "Zoe", "zo\u{EB} (2) (2)"])
            let zoe = try #require(AccountName("ZO\u{CB}"))
            #expect(try SQLIssuerTransaction(database: db).user(named: zoe)?.subject == "subject-of-user-0")
        }
    }

    @Test func passwordsMadeOfTheNameAreRefused() {
        for (name, password) in [
            ("gwendolyne", "gwendolyne"), ("gwendolyne", "Gwendolyne1"), ("Gwendolyne", "1gwendolyne!"), ("gwendolyne", "gwen.dolyne"),
            ("gwendolyne", "gwendolynegwendolyne"), ("Ada B", "adab-adab-2024"), ("1234567890", "1234567890"),
            ("ｇwendolyne", "gwendolyne1"),
        ] {
            #expect(PasswordRule.objection(to: Secret(password), name: name) != nil, "\(password)")
        }
        for (name, password) in [
            ("gwendolyne", "gwendolynes horse"), ("Ada", "correct horse battery"), ("1234567890", "2345678901"), ("😀", "correct horse"),
        ] {
            #expect(PasswordRule.objection(to: Secret(password), name: name) == nil, "\(password)")
        }
    }
}
