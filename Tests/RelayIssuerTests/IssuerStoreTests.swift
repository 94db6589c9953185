// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer

#if Postgres
import RelayPostgres
#endif

/// What every store of the issuer has to do.
@Suite struct IssuerStoreTests {
    enum Kind: CaseIterable, Sendable {
        case sqlite, memory
        #if Postgres
        case postgres
        #endif

        static let all = allCases.filter(\.isPossible)

        private var isPossible: Bool {
            #if Postgres
            if self == .postgres { return PostgresServer.isPossible }
            #endif
            return true
        }
    }

    static let (ada, bob) = ("ada-0123456789ab", "bob-0123456789ab")
    static let key = P256SigningKey().publicKey
    static let now: Milliseconds = 1_700_000_000_000

    /// Keeps the directory of the database.
    let test: TestIssuer

    init() throws { self.test = try TestIssuer() }

    /// A store with the users Ada and Bob.
    func open(_ kind: Kind) async throws -> any IssuerStore {
        let store: any IssuerStore =
            switch kind {
            case .sqlite: try test.issuer.store
            case .memory: MemoryIssuerStore()
            #if Postgres
            case .postgres: try await PostgresIssuerStore(PostgresServer.shared.makeDatabase(), master: MasterKey(randomBytes(32)))
            #endif
            }
        try await store.write { records throws in
            try records.insert(IssuerUser(subject: Self.bob, name: "Bob"), key: "bob", now: 2)
            try records.insert(IssuerUser(subject: Self.ada, name: "Ada"), key: "ada", now: 1)
        }
        return store
    }

    // MARK: Rows

    static func after(_ milliseconds: Int64) -> Milliseconds { Milliseconds(clamping: now.count + milliseconds) }

    static func digest(_ number: Int) -> Digest256 { Digest256(hashing: Array("\(number)".utf8)) }

    static func session(_ number: Int, of subject: String = ada, used: Int64 = 0) -> WebSession {
        WebSession(id: digest(number), subject: subject, agent: "agent \(number)", created: now, used: after(used))
    }

    static func passkey(_ id: UInt8, of subject: String = ada, created: Int64 = 0) throws -> Passkey {
        let key = try #require(PasskeyKey(algorithm: -7, spki: Self.key.spki))
        return Passkey(id: [id], subject: subject, key: key, name: "name", created: after(created), counter: 1)
    }

    static func invitation(_ number: Int, by inviter: Invitation.Inviter? = nil, expires: Int64 = 1) -> Invitation {
        Invitation(code: digest(number), subject: ada, inviter: inviter, expires: after(expires))
    }

    static func code(_ number: Int, of subject: String = ada, expires: Int64 = 1) -> AuthorizationCode {
        AuthorizationCode(
            code: digest(number),
            subject: subject,
            client: "com.example.app",
            redirect: "com.example.app:/done",
            challenge: digest(-1),
            scopes: .all,
            expires: after(expires)
        )
    }

    static func device(_ number: Int, expires: Int64 = 1) -> DeviceAuthorization {
        DeviceAuthorization(
            code: digest(number),
            userCode: digest(-number - 1),
            client: "com.example.app",
            scopes: .all,
            device: "device",
            platform: "platform",
            expires: after(expires)
        )
    }

    static func login(_ number: UInt8, of subject: String = ada, key: String? = nil, rotated: Int64 = 0, revoked: Int64? = nil)
        -> RefreshFamily
    {
        RefreshFamily(
            id: FamilyID(Array(repeating: number, count: 16)),
            subject: subject,
            client: "com.example.app",
            device: "device",
            scopes: .all,
            key: key,
            invitedBy: EndpointID(Self.key),
            created: now,
            rotated: after(rotated),
            revoked: revoked.map(after)
        )
    }

    // MARK: Transactions

    @Test(arguments: Kind.all) func aTransactionIsAppliedCompletelyOrNotAtAll(_ kind: Kind) async throws {
        struct Failure: Error {}
        let store = try await open(kind)
        for error in [Failure(), IssuerError.nameTaken] as [any Error] {
            await #expect(throws: IssuerError.self) {
                try await store.write { records throws in
                    try records.removeUser(Self.bob)
                    try records.insert(Self.login(1))
                    throw error
                }
            }
            try await store.read { records throws in
                #expect(try records.hasUser(Self.bob))
                #expect(try records.family(Self.login(1).id) == nil)
            }
        }
        await #expect(throws: IssuerError.nameTaken) { try await store.write { _ in throw IssuerError.nameTaken } }
    }

    @Test(arguments: Kind.all) func aReadTransactionCannotWrite(_ kind: Kind) async throws {
        let store = try await open(kind)
        await #expect(throws: IssuerError.self) { try await store.read { try $0.removeUser(Self.ada) } }
        await #expect(throws: IssuerError.self) { try await store.read { try $0.insert(Self.login(1)) } }
        try await store.write { records throws in
            #expect(try records.users().count == 2)
            #expect(try records.openLogins(of: Self.ada).isEmpty)
        }
    }

    @Test(arguments: Kind.all) func aClosedStoreServesNobody(_ kind: Kind) async throws {
        let store = try await open(kind)
        try store.close()
        await #expect(throws: IssuerError.self) { try await store.read { try $0.users() } }
        await #expect(throws: IssuerError.self) { try await store.write { try $0.removeUser(Self.ada) } }
    }

    @Test(arguments: Kind.all) func aRowIsInsertedOnceAndForAUserWhoIsThere(_ kind: Kind) async throws {
        let store = try await open(kind)
        let inserts: [@Sendable (any IssuerTransaction) throws -> Void] = [
            { try $0.insert(IssuerUser(subject: "cyd-0123456789ab", name: "Cyd"), key: "cyd", now: 3) },
            { try $0.insert(try Self.passkey(1)) }, { try $0.insert(Self.session(1)) }, { try $0.insert(Self.invitation(1)) },
            { try $0.insert(Self.code(1)) }, { try $0.insert(Self.device(1), from: ClientNetworks(["a"])) },
            { try $0.insert(Self.login(1)) },
        ]
        for insert in inserts {
            try await store.write(insert)
            await #expect(throws: IssuerError.self) { try await store.write(insert) }
        }
        try await store.write { try $0.setRecoveryCodes([Self.digest(1)], of: Self.ada) }
        await #expect(throws: IssuerError.self) { try await store.write { try $0.setRecoveryCodes([Self.digest(1)], of: Self.bob) } }
        let orphans: [@Sendable (any IssuerTransaction) throws -> Void] = [
            { try $0.insert(try Self.passkey(2, of: "nobody")) }, { try $0.insert(Self.session(2, of: "nobody")) },
            { try $0.insert(Self.code(2, of: "nobody")) }, { try $0.insert(Self.login(2, of: "nobody")) },
            { try $0.setPassword(PasswordHash(decoyOf: .init()), of: "nobody") },
            { try $0.setSetUpToken(Self.digest(2), .link, of: "nobody", expires: Self.after(1)) },
            { try $0.setRecoveryCodes([Self.digest(2)], of: "nobody") }, { try $0.note(.signedIn, of: "nobody", "", now: Self.now) },
            { try $0.decide(Self.digest(1), .allowed(subject: "nobody")) },
            { try $0.insert(IssuerUser(subject: "dan-0123456789ab", name: "Ada"), key: "ada", now: 3) },
        ]
        for orphan in orphans { await #expect(throws: IssuerError.self) { try await store.write(orphan) } }
    }

    // MARK: Users

    @Test(arguments: Kind.all) func usersAreListedOldestFirstAndFoundByTheirKeys(_ kind: Kind) async throws {
        let store = try await open(kind)
        let (name, other) = (try #require(AccountName("Ada")), try #require(AccountName("Grace")))
        let (ada, bob) = (IssuerUser(subject: Self.ada, name: "Ada"), IssuerUser(subject: Self.bob, name: "Bob"))
        try await store.write { records throws in
            #expect(try records.users() == [ada, bob])
            #expect(try records.hasUser(Self.ada) && !records.hasUser("nobody"))
            #expect(try records.user(Self.ada) == ada && records.user("nobody") == nil)
            #expect(try records.user(named: name) == ada && records.user(named: other) == nil)
            try records.rename(Self.ada, to: other)
            let renamed = IssuerUser(subject: Self.ada, name: "Grace")
            #expect(try records.user(Self.ada) == renamed && records.user(named: other) == renamed && records.user(named: name) == nil)
            try records.rename("nobody", to: name)
            #expect(try records.users() == [renamed, bob])
        }
        await #expect(throws: IssuerError.self) { try await store.write { try $0.rename(Self.bob, to: other) } }
    }

    @Test(arguments: Kind.all) func aRemovedUserLeavesNoRow(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            for (number, subject) in [Self.ada, Self.bob].enumerated() {
                try records.setPassword(PasswordHash(decoyOf: .init()), of: subject)
                try records.insert(try Self.passkey(UInt8(number), of: subject))
                try records.setSetUpToken(Self.digest(number), .link, of: subject, expires: Self.after(1))
                try records.setRecoveryCodes([Self.digest(number)], of: subject)
                try records.insert(Self.session(number, of: subject))
                try records.note(.signedIn, of: subject, "", now: Self.now)
                try records.insert(Self.code(number, of: subject))
                try records.insert(Self.login(UInt8(number), of: subject))
                try records.insert(Self.device(number), from: ClientNetworks(["a"]))
                try records.decide(Self.digest(number), .allowed(subject: subject))
            }
            try records.insert(Self.invitation(0))
            try records.removeUser(Self.ada)
        }
        try await store.read { records throws in
            #expect(try records.users().map(\.subject) == [Self.bob])
            for (number, subject) in [Self.ada, Self.bob].enumerated() {
                let isThere = subject == Self.bob
                #expect(try (records.password(of: subject) != nil) == isThere)
                #expect(try (records.passkeys(of: subject).count == 1) == isThere)
                #expect(try (records.setUp(Self.digest(number), now: Self.now) != nil) == isThere)
                #expect(try (records.recoveryCodes(of: subject) == 1) == isThere)
                #expect(try (records.session(Self.digest(number)) != nil) == isThere)
                #expect(try records.events(of: subject).isEmpty != isThere)
                #expect(try (records.authorizationCode(Self.digest(number)) != nil) == isThere)
                #expect(try (records.family(Self.login(UInt8(number)).id) != nil) == isThere)
                #expect(try (records.deviceAuthorization(Self.digest(number)) != nil) == isThere)
            }
            #expect(try records.invitation(Self.digest(0)) == nil)
        }
    }

    // MARK: How users sign in

    @Test(arguments: Kind.all) func aUserHasOnePasswordAndOneSetUpToken(_ kind: Kind) async throws {
        let store = try await open(kind)
        let (first, second) = (PasswordHash(decoyOf: .init()), PasswordHash(decoyOf: .init()))
        try await store.write { records throws in
            for hash in [first, second] {
                try records.setPassword(hash, of: Self.ada)
                #expect(try records.password(of: Self.ada) == hash)
            }
            #expect(try records.password(of: Self.bob) == nil)
            try records.removePassword(of: Self.ada)
            #expect(try records.password(of: Self.ada) == nil)
            for (number, kind) in [SetUpKind.link, .reset, .recovery].enumerated() {
                try records.setSetUpToken(Self.digest(number), kind, of: Self.ada, expires: Self.after(1))
                let found = try records.setUp(Self.digest(number), now: Self.now)
                #expect(found?.subject == Self.ada && found?.kind == kind)
                #expect(try records.setUp(Self.digest(number), now: Self.after(1)) == nil)
                #expect(try records.setUp(Self.digest(number - 1), now: Self.now) == nil)
            }
            try records.removeSetUpToken(of: Self.bob)
            #expect(try records.setUp(Self.digest(2), now: Self.now) != nil)
            try records.removeSetUpToken(of: Self.ada)
            #expect(try records.setUp(Self.digest(2), now: Self.now) == nil)
        }
    }

    @Test(arguments: Kind.all) func aRecoveryCodeOfAUserWorksOnce(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            try records.setRecoveryCodes([Self.digest(1), Self.digest(2)], of: Self.ada)
            #expect(try records.recoveryCodes(of: Self.ada) == 2)
            #expect(try !records.useRecoveryCode(Self.digest(1), of: Self.bob))
            #expect(try records.useRecoveryCode(Self.digest(1), of: Self.ada))
            #expect(try !records.useRecoveryCode(Self.digest(1), of: Self.ada))
            #expect(try records.recoveryCodes(of: Self.ada) == 1)
            // New codes replace all old ones.
            try records.setRecoveryCodes([Self.digest(3), Self.digest(4)], of: Self.ada)
            #expect(try !records.useRecoveryCode(Self.digest(2), of: Self.ada))
            #expect(try records.recoveryCodes(of: Self.ada) == 2)
            try records.setRecoveryCodes([], of: Self.ada)
            #expect(try records.recoveryCodes(of: Self.ada) == 0)
        }
    }

    @Test(arguments: Kind.all) func passkeysKeepTheirCounters(_ kind: Kind) async throws {
        let store = try await open(kind)
        let passkeys = [try Self.passkey(1, created: 1), try Self.passkey(2), try Self.passkey(3)]
        let other = try Self.passkey(4, of: Self.bob)
        try await store.write { records throws in
            for passkey in passkeys + [other] { try records.insert(passkey) }
            #expect(try records.passkey([1]) == passkeys[0] && records.passkey([9]) == nil)
            #expect(try records.passkeys(of: Self.ada) == [passkeys[1], passkeys[2], passkeys[0]])
            var used = passkeys[1]
            used.counter = .max
            try records.update(used)
            #expect(try records.passkey([2]) == used && records.passkey([3]) == passkeys[2])
            try records.removePasskey([2])
            #expect(try records.passkeys(of: Self.ada) == [passkeys[2], passkeys[0]])
            try records.removePasskeys(of: Self.ada)
            #expect(try records.passkeys(of: Self.ada).isEmpty && records.passkey([4]) == other)
        }
    }

    // MARK: Signed-in browsers

    @Test(arguments: Kind.all) func theLeastRecentlyUsedSessionEndsForANewOne(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            for number in 0..<WebSession.maximum { try records.insert(Self.session(number, used: Int64(number))) }
            try records.insert(Self.session(-1, of: Self.bob))
            try records.setUsed(Self.digest(0), at: Self.after(1_000))
            #expect(try records.session(Self.digest(0)) == Self.session(0, used: 1_000))
            try records.insert(Self.session(100, used: 500))
            #expect(try records.session(Self.digest(1)) == nil && records.session(Self.digest(-1)) != nil)
            let numbers = [0, 100] + (2..<WebSession.maximum).reversed()
            #expect(try records.sessions(of: Self.ada).map(\.agent) == numbers.map { "agent \($0)" })
            #expect(try !records.removeSession(Self.digest(2), of: Self.bob))
            #expect(try records.removeSession(Self.digest(2), of: Self.ada))
            #expect(try !records.removeSession(Self.digest(2), of: Self.ada))
        }
    }

    @Test(arguments: Kind.all) func allSessionsEndWithTheirAuthorizations(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            try records.insert(Self.session(1))
            try records.insert(Self.session(2, of: Self.bob))
            for number in [1, 2] { try records.insert(Self.code(number)) }
            try records.insert(Self.code(3, of: Self.bob))
            try records.redeem(authorizationCode: Self.digest(2), .init())
            let decisions: [DeviceAuthorization.Decision] = [.pending, .denied, .allowed(subject: Self.ada), .allowed(subject: Self.bob)]
            for (number, decision) in decisions.enumerated() {
                try records.insert(Self.device(number), from: ClientNetworks(["a"]))
                try records.decide(Self.digest(number), decision)
            }
            try records.removeSessions(of: Self.ada)
            #expect(try records.sessions(of: Self.ada).isEmpty && records.sessions(of: Self.bob).count == 1)
            // A redeemed code stays, because a second use ends the login.
            #expect(try (1...3).map { try records.authorizationCode(Self.digest($0)) != nil } == [false, true, true])
            #expect(try (0...3).map { try records.deviceAuthorization(Self.digest($0)) != nil } == [true, true, false, true])
        }
    }

    // MARK: Account events

    @Test(arguments: Kind.all) func eventsAreBoundedAndFailuresDisplaceNoOthers(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            for number in 0..<600 {
                let time = Self.after(Int64(number) * 2 * AccountEvent.failureSpan)
                try records.note(.signInFailed, of: Self.ada, "", now: time)
                if number % 2 == 0 { try records.note(.signedIn, of: Self.ada, "\(number)", now: time) }
            }
        }
        let events = try await store.read { try $0.events(of: Self.ada) }
        #expect(events.count { $0.kind == .signInFailed } == AccountEvent.maximumFailuresKept)
        #expect(events.count { $0.kind == .signedIn } == AccountEvent.maximumKept)
        #expect(events.first { $0.kind == .signedIn }?.detail == "598")
    }

    @Test(arguments: Kind.all) func eventsAreListedNewestFirstAndFailuresAreCounted(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            try records.note(.signedIn, of: Self.ada, "late", now: Self.after(1))
            for detail in ["first", "second"] { try records.note(.signedOut, of: Self.ada, detail, now: Self.now) }
            for time in [2, AccountEvent.failureSpan + 1, AccountEvent.failureSpan + 2] {
                try records.note(.signInFailed, of: Self.ada, "\(time)", now: Self.after(time))
            }
            try records.note(.signInFailed, of: Self.bob, "", now: Self.now)
            let events = try records.events(of: Self.ada)
            #expect(events.map(\.detail) == ["\(AccountEvent.failureSpan + 2)", "2", "late", "second", "first"])
            #expect(events.map(\.count) == [1, 2, 1, 1, 1])
            #expect(events.map(\.time) == [AccountEvent.failureSpan + 2, 2, 1, 0, 0].map(Self.after))
            #expect(events.map(\.kind) == [.signInFailed, .signInFailed, .signedIn, .signedOut, .signedOut])
        }
    }

    // MARK: The issuer

    @Test(arguments: Kind.all) func theIssuerServesFromEveryStore(_ kind: Kind) async throws {
        let (store, device) = (try await open(kind), TestDevice())
        let issuer = Issuer(
            store: store,
            master: MasterKey(randomBytes(32)),
            settings: .init(origins: [TestIssuer.origin], audience: "the-relay"),
            now: { Self.now },
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        func exchange(_ fields: [String: String]) async throws -> TokenResponse {
            try await issuer.tokens.exchange(device.form(fields), proof: device.proof(at: Self.now), at: TestIssuer.url)
        }
        let code = try await issuer.invite(subject: Self.ada).exposed
        let joined = try await exchange(["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code])
        let token = try #require(joined.refreshToken).exposed
        let refreshed = try await exchange(["grant_type": "refresh_token", "refresh_token": token])
        #expect(refreshed.subject == Self.ada)
        try await issuer.endLogins(boundTo: device.key.publicKey.jwkThumbprint, session: nil)
        #expect(try await issuer.revokedLogins().map(\.subject) == [Self.ada])
        await #expect(throws: OAuthError.self) { try await exchange(["grant_type": "refresh_token", "refresh_token": token]) }
    }
}
