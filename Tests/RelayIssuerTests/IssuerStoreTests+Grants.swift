// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer

// Invitations, authorizations, logins and keys.
extension IssuerStoreTests {
    // MARK: Invitations

    @Test(arguments: Kind.all) func anInvitationIsOpenUntilItIsRedeemedOrExpires(_ kind: Kind) async throws {
        let store = try await open(kind)
        let inviter = Invitation.Inviter(key: Self.key.jwkThumbprint, endpoint: EndpointID(Self.key))
        try await store.write { records throws in
            try records.insert(Self.login(1))
            try records.insert(Self.invitation(1))
            for number in [2, 3, 4] { try records.insert(Self.invitation(number, by: inviter, expires: 5)) }
            #expect(try records.invitation(Self.digest(1)) == Self.invitation(1))
            #expect(try records.invitation(Self.digest(2)) == Self.invitation(2, by: inviter, expires: 5))
            #expect(try records.invitation(Self.digest(9)) == nil)
            var redeemed = Self.invitation(3, by: inviter, expires: 5)
            redeemed.redemption = .init(key: inviter.key, family: Self.login(1).id)
            try records.redeem(Self.digest(3), .init(key: inviter.key, family: Self.login(1).id))
            #expect(try records.invitation(Self.digest(3)) == redeemed)
            #expect(try records.openInvitations(of: Self.ada, now: Self.now) == 3)
            #expect(try records.openInvitations(of: Self.ada, now: Self.after(1)) == 2)
            #expect(try records.openInvitations(of: Self.bob, now: Self.now) == 0)
            try records.removeOpenInvitations(madeBy: inviter.key)
            #expect(try (1...4).map { try records.invitation(Self.digest($0)) != nil } == [true, false, true, false])
        }
    }

    // MARK: Authorizations of clients

    @Test(arguments: Kind.all) func theOldestCodeOfAUserMakesRoomForANewOne(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            try records.insert(Self.login(1))
            try records.insert(Self.code(-1, of: Self.bob))
            for number in 0...AuthorizationCode.maximum { try records.insert(Self.code(number, expires: Int64(number))) }
            #expect(try records.authorizationCode(Self.digest(0)) == nil)
            for number in 1...AuthorizationCode.maximum {
                #expect(try records.authorizationCode(Self.digest(number)) == Self.code(number, expires: Int64(number)))
            }
            #expect(try records.authorizationCode(Self.digest(-1)) != nil)
            var redeemed = Self.code(5, expires: 5)
            redeemed.redemption = .init(key: Self.key.jwkThumbprint, family: Self.login(1).id)
            try records.redeem(authorizationCode: Self.digest(5), .init(key: Self.key.jwkThumbprint, family: Self.login(1).id))
            #expect(try records.authorizationCode(Self.digest(5)) == redeemed)
        }
    }

    @Test(arguments: Kind.all) func aDeviceIsFoundByBothItsCodes(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            var device = Self.device(1)
            try records.insert(device, from: ClientNetworks(["a", "b"]))
            #expect(try records.deviceAuthorization(Self.digest(9)) == nil)
            for decision in [DeviceAuthorization.Decision.pending, .denied, .allowed(subject: Self.ada)] {
                device.decision = decision
                try records.decide(device.code, decision)
                #expect(try records.deviceAuthorization(device.code) == device)
                #expect(try records.deviceAuthorization(userCode: device.userCode) == device)
            }
            try records.removeDeviceAuthorization(device.code)
            #expect(try records.deviceAuthorization(device.code) == nil && records.deviceAuthorization(userCode: device.userCode) == nil)
        }
    }

    @Test(.disabled(if: Sweep.isQuick, "it stores 10,000 rows"), arguments: Kind.all)
    func theBusiestAddressOfTheBusiestNetworkMakesRoom(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            func add(_ numbers: Range<Int>, _ client: ClientNetworks, expires: Int64) throws {
                for number in numbers { try records.insert(Self.device(number, expires: expires + Int64(number)), from: client) }
            }
            func left(_ numbers: Range<Int>) throws -> [Int] {
                try numbers.filter { try records.deviceAuthorization(Self.digest($0)) != nil }
            }
            let maximum = DeviceAuthorization.maximum
            // The network with most devices has two addresses. Another network has the address with most.
            try add(0..<4_000, ClientNetworks(["alone", "small"]), expires: 1_000)
            try add(4_000..<7_500, ClientNetworks(["busy", "large"]), expires: 1_000)
            try add(7_500..<9_999, ClientNetworks(["calm", "large"]), expires: 1_000)
            #expect(try records.makeRoomForDeviceAuthorization(at: Self.now))
            #expect(try left(0..<maximum).count == 9_999)
            try add(9_999..<maximum, ClientNetworks(["calm", "large"]), expires: -9_500)
            #expect(try records.makeRoomForDeviceAuthorization(at: Self.now))
            #expect(try left(0..<maximum) == Array(0..<4_000) + Array(4_001..<maximum))
            // Expired and decided devices wait no more.
            try add(4_000..<4_001, ClientNetworks(["busy", "large"]), expires: -4_000)
            #expect(try records.makeRoomForDeviceAuthorization(at: Self.now))
            #expect(try left(0..<maximum).count == maximum)
            try add(20_000..<20_001, ClientNetworks(["other", "other"]), expires: 0)
            for number in 4_001..<9_999 { try records.decide(Self.digest(number), .denied) }
            #expect(try records.makeRoomForDeviceAuthorization(at: Self.now))
            #expect(try left(0..<2) == [1])
            for number in 0..<4_000 { try records.decide(Self.digest(number), .denied) }
            for number in 9_999..<maximum { try records.decide(Self.digest(number), .denied) }
            try records.decide(Self.digest(20_000), .denied)
            try records.insert(Self.device(30_000, expires: 1), from: ClientNetworks(["other", "other"]))
            try records.decide(Self.digest(30_000), .denied)
            #expect(try !records.makeRoomForDeviceAuthorization(at: Self.now))
        }
    }

    // MARK: Limits

    @Test(arguments: Kind.all) func aProofIsUsedOnceAndRememberedAfterItsEnd(_ kind: Kind) async throws {
        let store = try await open(kind)
        func use(_ number: Int) async throws -> Bool {
            try await store.write { try $0.use(Self.digest(number), until: Self.after(Int64(number))) }
        }
        for number in 1...2 { #expect(try await use(number)) }
        #expect(try await !use(1))
        await #expect(throws: IssuerError.self) { try await store.read { try $0.use(Self.digest(3), until: Self.now) } }
        // What the transaction does not grant is not used.
        await #expect(throws: IssuerError.nameTaken) {
            try await store.write { records in
                #expect(try records.use(Self.digest(3), until: Self.now))
                throw IssuerError.nameTaken
            }
        }
        #expect(try await use(3))
        try await store.count { try $0.forgetEnded(before: Self.after(1)) }
        #expect(try await !use(1))
        try await store.count { try $0.forgetEnded(before: Self.after(1 + UsedOnce.memory)) }
        #expect(try await use(1))
        #expect(try await !use(2))
    }

    @Test(arguments: Kind.all) func attemptsAreCountedByName(_ kind: Kind) async throws {
        let store = try await open(kind)
        let (first, second) = (Self.digest(1), Self.digest(2))
        let counted = Attempts(count: 2, time: Self.now, blockedUntil: Self.after(7))
        try await store.count { rows throws in
            #expect(try rows.attempts(first) == nil)
            #expect(try rows.heldAttempts(first, now: Self.now) == Attempts(time: Self.now))
            try rows.set(counted, first)
            #expect(try rows.attempts(first) == counted && rows.heldAttempts(first, now: Self.after(1)) == counted)
            // Only attempts that are held are replaced.
            try rows.set(counted, second)
            try rows.takeAttemptBack(second)
            try rows.removeAttempts(second)
            #expect(try rows.attempts(second) == nil)
        }
        try await store.count { rows throws in
            for count in [1, 0] {
                try rows.takeAttemptBack(first)
                #expect(try rows.attempts(first) == Attempts(count: count, time: Self.now))
            }
            try rows.takeAttemptBack(first)
            #expect(try rows.attempts(first)?.count == 0)
            _ = try rows.heldAttempts(second, now: Self.after(1))
            try rows.forgetEnded(before: Self.after(Attempts.memory))
            #expect(try rows.attempts(first) == nil && rows.attempts(second) != nil)
            try rows.removeAttempts(second)
            #expect(try rows.attempts(second) == nil)
        }
        await #expect(throws: IssuerError.self) {
            try await store.count { rows in
                _ = try rows.heldAttempts(first, now: Self.now)
                throw IssuerError.nameTaken
            }
        }
        #expect(try await store.count { try $0.attempts(first) } == nil)
    }

    @Test(arguments: Kind.all) func simultaneousAttemptsAreAllCounted(_ kind: Kind) async throws {
        let store = try await open(kind)
        let limits = [AttemptLimit("a", "1"), AttemptLimit("b", "1", .perHour(7)), AttemptLimit("c", "1", .growingWaits(free: 100))]
        let context = try test.issuer.context.with(store, now: Self.now)
        let counted = await withTaskGroup { group in
            for number in 0..<20 {
                // Whoever counts under some of the names in another order must not wait for ever.
                let own = number.isMultiple(of: 2) ? limits : [limits[2], limits[1]]
                group.addTask { (try? await context.countAttempt(own)) == nil ? 0 : 1 }
            }
            return await group.reduce(0, +)
        }
        #expect(counted == 7)
        let counts = try await store.count { rows in try limits.map { try rows.attempts($0.id)?.count ?? 0 } }
        #expect(counts[0] <= 5 && Array(counts[1...]) == [7, 7])
    }

    // MARK: Resource servers

    @Test(arguments: Kind.all) func resourceServersAreListedByName(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            for (number, name) in ["b", "a", "B"].enumerated() { try records.setResourceServer(name, secret: Self.digest(number)) }
            #expect(try records.resourceServers() == ["B", "a", "b"])
            try records.setResourceServer("a", secret: Self.digest(7))
            #expect(try records.secret(ofResourceServer: "a") == Self.digest(7))
            #expect(try records.secret(ofResourceServer: "b") == Self.digest(0) && records.secret(ofResourceServer: "c") == nil)
            #expect(try records.removeResourceServer("a"))
            #expect(try !records.removeResourceServer("a"))
            #expect(try records.resourceServers() == ["B", "b"])
        }
    }

    // MARK: Logins

    @Test(arguments: Kind.all) func loginsAreFoundByIDSessionKeyAndUser(_ kind: Kind) async throws {
        let store = try await open(kind)
        let key = Self.key.jwkThumbprint
        let logins = [
            Self.login(1, key: key, rotated: 1), Self.login(2, rotated: 3), Self.login(3, key: key, rotated: 2, revoked: 5),
            Self.login(4, of: Self.bob, key: key), Self.login(5, rotated: 4),
        ]
        try await store.write { records throws in
            for login in logins { try records.insert(login) }
            for login in logins {
                #expect(try records.family(login.id) == login)
                #expect(try records.family(session: login.id.session) == login)
            }
            #expect(try records.family(Self.login(9).id) == nil && records.family(session: Self.login(9).id.session) == nil)
        }
        try await store.read { records throws in
            func ids(_ logins: [RefreshFamily]) -> [UInt8] { logins.map { $0.id.bytes[0] } }
            #expect(ids(try records.openLogins(boundTo: key, session: nil)).sorted() == [1, 4])
            #expect(ids(try records.openLogins(boundTo: key, session: logins[1].id.session)).sorted() == [1, 2, 4])
            #expect(ids(try records.openLogins(boundTo: "", session: logins[2].id.session)).isEmpty)
            #expect(ids(try records.openLogins(of: Self.ada)).sorted() == [1, 2, 5])
            #expect(ids(try records.openLogins(of: Self.ada, upTo: 2)) == [5, 2])
            #expect(ids(try records.openLogins(of: Self.ada, upTo: 9)) == [5, 2, 1])
            #expect(ids(try records.openLogins(of: Self.ada, beyond: 1)).sorted() == [1, 2])
            #expect(ids(try records.openLogins(of: Self.ada, beyond: 3)).isEmpty)
            #expect(ids(try records.revoked(since: Self.after(4))) == [3])
            #expect(ids(try records.revoked(since: Self.after(5))).isEmpty)
        }
    }

    @Test(arguments: Kind.all) func onlyTheChangingPartsOfALoginAreWritten(_ kind: Kind) async throws {
        let store = try await open(kind)
        let key = Self.key.jwkThumbprint
        try await store.write { records throws in
            for login in [Self.login(1, key: key), Self.login(2), Self.login(3)] { try records.insert(login) }
            var login = Self.login(1, key: key)
            (login.rotated, login.current, login.revoked, login.isOfReusedLink) = (Self.after(1), 7, Self.after(2), true)
            var written = login
            (written.device, written.isOfRevokedEndpoint) = ("another", true)
            try records.update(written)
            #expect(try records.family(login.id) == login)
            #expect(try records.family(Self.login(2).id) == Self.login(2))
            try records.endpointRevoked(boundTo: key, session: Self.login(2).id.session)
            let marked = try [1, 2, 3].map { try records.family(Self.login($0).id)?.isOfRevokedEndpoint }
            #expect(marked == [true, true, false])
        }
    }

    @Test(arguments: Kind.all) func theLatestRevokedLoginsOfAUserAreKept(_ kind: Kind) async throws {
        let store = try await open(kind)
        func login(_ number: Int, of subject: String = Self.ada) -> RefreshFamily {
            let id = Array(Self.digest(number).bytes.prefix(16))
            return RefreshFamily(
                id: FamilyID(id),
                subject: subject,
                client: "com.example.app",
                scopes: .all,
                key: nil,
                invitedBy: nil,
                created: Self.now,
                rotated: Self.now,
                revoked: Self.after(Int64(number))
            )
        }
        let logins = (0..<RefreshFamily.maximumRevoked + 10).map { login($0) }
        let other = login(-1, of: Self.bob)
        try await store.write { records throws in
            for login in logins + [other, Self.login(1)] { try records.insert(login) }
            try records.insert(Self.invitation(1))
            try records.redeem(Self.digest(1), .init(key: Self.key.jwkThumbprint, family: logins[0].id))
            try records.forgetRevokedLogins(of: Self.ada, before: Self.after(4))
            #expect(try logins.map { try records.family($0.id) != nil } == logins.indices.map { $0 > 4 })
            try records.forgetRevokedLogins(of: Self.ada, before: Self.after(1_000))
            #expect(try logins.map { try records.family($0.id) != nil } == logins.indices.map { $0 >= 10 })
            #expect(try records.family(other.id) == other && records.family(Self.login(1).id) == Self.login(1))
            // What began with a login that is gone no longer names it.
            #expect(try records.invitation(Self.digest(1))?.redemption == .init(key: Self.key.jwkThumbprint))
        }
    }

    @Test(arguments: Kind.all) func expiredRowsAreDeleted(_ kind: Kind) async throws {
        let store = try await open(kind)
        try await store.write { records throws in
            try records.insert(Self.code(1, expires: 0))
            try records.insert(Self.device(1, expires: 0), from: ClientNetworks(["a"]))
            try records.setSetUpToken(Self.digest(1), .link, of: Self.ada, expires: Self.now)
            try records.insert(Self.session(1))
            try records.insert(Self.session(2, used: WebSession.wholeLife))
            try records.insert(Self.invitation(1, expires: 0))
            try records.insert(Self.login(1))
            try records.insert(Self.login(2, rotated: RefreshFamily.wholeLife))
            try records.redeem(Self.digest(1), .init(family: Self.login(1).id))
        }
        func left(_ time: Int64) async throws -> [Bool] {
            try await store.write { records throws in
                try records.forget(before: Self.after(time))
                let logins = try [1, 2].map { try records.family(Self.login($0).id) != nil }
                let sessions = try [1, 2].map { try records.session(Self.digest($0)) != nil }
                return try [
                    records.setUp(Self.digest(1), now: 0) != nil, records.authorizationCode(Self.digest(1)) != nil,
                    records.deviceAuthorization(Self.digest(1)) != nil, records.invitation(Self.digest(1)) != nil,
                ] + sessions + logins
            }
        }
        #expect(try await left(-1) == [true, true, true, true, true, true, true, true])
        #expect(try await left(0) == [false, true, true, true, true, true, true, true])
        #expect(try await left(AuthorizationCode.memory - 1) == [false, true, true, true, true, true, true, true])
        #expect(AuthorizationCode.memory == DeviceAuthorization.memory)
        #expect(try await left(AuthorizationCode.memory) == [false, false, false, true, true, true, true, true])
        #expect(try await left(Invitation.memory) == [false, false, false, true, true, true, true, true])
        #expect(try await left(Invitation.memory + 1) == [false, false, false, false, true, true, true, true])
        #expect(try await left(WebSession.idleLife - 1) == [false, false, false, false, true, true, true, true])
        #expect(try await left(WebSession.idleLife) == [false, false, false, false, false, true, true, true])
        #expect(try await left(WebSession.wholeLife) == [false, false, false, false, false, false, true, true])
        #expect(try await left(RefreshFamily.idleLife - 1) == [false, false, false, false, false, false, true, true])
        #expect(try await left(RefreshFamily.idleLife) == [false, false, false, false, false, false, false, true])
        #expect(try await left(RefreshFamily.wholeLife) == [false, false, false, false, false, false, false, false])
    }

    // MARK: Keys

    @Test(arguments: Kind.all) func signingKeysAndTheSealAreKept(_ kind: Kind) async throws {
        let (store, master) = (try await open(kind), MasterKey(randomBytes(32)))
        let keys = (0..<2).map { number in
            SealedSigningKey(
                entry: .init(id: P256SigningKey().publicKey.jwkThumbprint, activates: Self.after(number)),
                sealed: [0, 1, UInt8(number)]
            )
        }
        try await store.write { records throws in
            for key in keys { try records.insert(key) }
            #expect(try Set(records.sealedKeys()) == Set(keys))
            try records.removeKey(keys[0].entry.id)
            #expect(try records.sealedKeys() == [keys[1]])
        }
        await #expect(throws: IssuerError.self) { try await store.write { try $0.insert(keys[1]) } }
        if kind == .memory {
            #expect(try await store.read { try $0.seal() } == nil)
            try await store.write { try $0.checkSeal(by: master) }
            try await store.write { try $0.checkSeal(by: master) }
        } else {
            // It was sealed when it was opened.
            #expect(try await store.read { try $0.seal() } != nil)
        }
        await #expect(throws: IssuerError.self) { try await store.write { try $0.setSeal([1]) } }
        await #expect(throws: IssuerError.wrongMasterKey) { try await store.write { try $0.checkSeal(by: MasterKey(randomBytes(32))) } }
    }
}

extension IssuerContext {
    /// The same with another store, at a fixed time.
    fileprivate func with(_ store: any IssuerStore, now: Milliseconds) -> IssuerContext {
        IssuerContext(store: store, master: master, now: { now }, logger: logger, events: events, origins: origins)
    }
}
