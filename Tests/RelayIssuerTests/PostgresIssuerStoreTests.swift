// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Logging
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayIssuer
@testable import RelayPostgres

/// Several issuers on one database, a server that ends connections, and a network that loses answers.
@Suite(.enabled(if: PostgresServer.isPossible)) struct PostgresIssuerStoreTests {
    private let database: [(name: String, value: String)]
    private let master = MasterKey(randomBytes(32))
    private static let now: Milliseconds = 1_700_000_000_000

    init() async throws { self.database = try await PostgresServer.shared.makeDatabase() }

    private func open() throws -> PostgresIssuerStore { try PostgresIssuerStore(database, master: master) }

    private func issuer() throws -> Issuer {
        Issuer(
            store: try open(),
            master: master,
            settings: .init(origins: [TestIssuer.origin], audience: "the-relay"),
            now: { Self.now },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// Runs a statement on a connection of its own.
    private func run(_ sql: String) throws -> Int {
        let connection = try PostgresConnection(database)
        try connection.begin()
        let changes = try connection.run(sql, [], mayWrite: true).changes
        try connection.commit()
        return changes
    }

    // MARK: Several issuers

    @Test func aNameIsGivenOnce() async throws {
        let issuers = [try issuer(), try issuer()]
        for number in 0..<10 {
            let outcomes = await withTaskGroup { group in
                for issuer in issuers {
                    group.addTask { () async -> IssuerError? in
                        do throws(IssuerError) {
                            _ = try await issuer.createUser(name: "name \(number)")
                            return nil
                        } catch { return error }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(outcomes) == [nil, .nameTaken])
        }
        #expect(try await issuers[0].users().count == 10)
    }

    @Test func noChangeOfAConcurrentTransactionIsLost() async throws {
        let stores = [try open(), try open()]
        let passkey = try IssuerStoreTests.passkey(1)
        try await stores[0].write { records in
            try records.insert(IssuerUser(subject: IssuerStoreTests.ada, name: "Ada"), key: "ada", now: 1)
            try records.insert(passkey)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for store in stores + stores {
                group.addTask {
                    for _ in 0..<10 {
                        try await store.write { records in
                            var passkey = try #require(try records.passkey([1]))
                            passkey.counter += 1
                            try records.update(passkey)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await stores[0].read { try $0.passkey([1])?.counter } == passkey.counter + 40)
    }

    private func refresh(_ token: Secret<String>?, of device: TestDevice, at issuer: Issuer) async throws -> Secret<String>? {
        let form = try device.form(["grant_type": "refresh_token", "refresh_token": try #require(token).exposed])
        return try await issuer.tokens.exchange(form, proof: device.proof(at: Self.now), at: TestIssuer.url).refreshToken
    }

    /// As at one issuer, the second one repeats the answer of the first one. An older token ends the login at both.
    @Test func aRefreshTokenHasOneSuccessor() async throws {
        let (issuers, device) = ([try issuer(), try issuer()], TestDevice())
        let code = try await issuers[0].invite(subject: try await issuers[0].createUser(name: "Ada")).exposed
        let form = try device.form(["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code])
        let first = try await issuers[1].tokens.exchange(form, proof: device.proof(at: Self.now), at: TestIssuer.url).refreshToken
        var token = first
        for _ in 0..<5 {
            let present = token
            let next = try await withThrowingTaskGroup(of: String?.self) { group in
                for issuer in issuers { group.addTask { try await refresh(present, of: device, at: issuer)?.exposed } }
                return try await group.reduce(into: Set()) { $0.insert($1) }
            }
            #expect(next.count == 1 && !next.contains(present?.exposed))
            token = (next.first ?? nil).map { Secret($0) }
        }
        let last = token
        let results = await withTaskGroup { group in
            for issuer in issuers { group.addTask { try? await refresh(first, of: device, at: issuer)?.exposed } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results == [nil, nil])
        for issuer in issuers {
            await #expect(throws: OAuthError.self) { try await refresh(last, of: device, at: issuer) }
            #expect(try await issuer.revokedLogins().count == 1)
        }
    }

    @Test func issuersSignWithTheSameKeys() async throws {
        let issuers = [try issuer(), try issuer()]
        let keys = try await withThrowingTaskGroup(of: Set<String?>.self) { group in
            for issuer in issuers { group.addTask { Set(try await issuer.publishedKeys().keys.map(\.kid)) } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(keys.count == 1 && keys.first?.isEmpty == false)
    }

    @Test func anotherMasterKeyIsRefused() throws {
        _ = try open()
        _ = try open()
        #expect(throws: IssuerError.wrongMasterKey) { try PostgresIssuerStore(database, master: MasterKey(randomBytes(32))) }
    }

    // MARK: Lost connections

    private func endConnections() throws {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        #expect(try run(others) > 0)
    }

    @Test func endedConnectionsAreReplaced() async throws {
        let store = try open()
        for name in ["a", "b", "c"] {
            try endConnections()
            try await store.write { try $0.setResourceServer(name, secret: Digest256(hashing: [])) }
            try endConnections()
            #expect(try await store.read { try $0.resourceServers() }.last == name)
        }
        try store.close()
    }

    /// The store says that it does not know, and does not repeat the work.
    @Test func aLostAnswerIsToldAndTheWorkIsNotRepeated() async throws {
        let proxy = try await CuttingProxy(to: database)
        let store = try PostgresIssuerStore(proxy.parameters, master: master)
        let runs = Mutex(0)
        let error = await #expect(throws: IssuerError.self) {
            try await store.write { records in
                runs.withLock { $0 += 1 }
                proxy.loseNextAnswer()
                try records.setResourceServer("a", secret: Digest256(hashing: []))
            }
        }
        #expect(error?.description.contains("look whether it was made") == true)
        #expect(proxy.cuts == 1 && runs.withLock { $0 } == 1)
        // The server has stored it. The next work goes over a new connection.
        #expect(try await store.read { try $0.resourceServers() } == ["a"])
        try store.close()
        await proxy.end()
    }

    @Test func aWorkThatFailsAfterABadStatementLeavesTheConnectionUsable() async throws {
        let store = try open()
        for _ in 0..<8 {
            await #expect(throws: IssuerError.self) {
                try await store.write { records in
                    // The server refuses it, and nobody waits for its answer.
                    try records.insert(try IssuerStoreTests.passkey(1, of: "nobody"))
                    throw IssuerError.nameTaken
                }
            }
        }
        #expect(try await store.read { try $0.users() }.isEmpty)
        #expect(throws: Never.self) { try store.close() }
    }

    @Test func unsuitableDatabasesAreRefusedWithAReason() throws {
        _ = try open()
        _ = try run("UPDATE schema SET oldest = 1000")
        #expect(throws: IssuerError.databaseTooNew) { try open() }
        let error = #expect(throws: IssuerError.self) {
            try PostgresIssuerStore([("host", "/nowhere"), ("user", "relay"), ("dbname", "other")], master: master)
        }
        #expect(error?.description.contains("/nowhere") == true)
    }
}
#endif
