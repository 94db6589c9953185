// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol
import Synchronization

/// An issuer's store without a database. It uses no more of `RelayIssuer` than a store of another module can.
final class MemoryIssuerStore: IssuerStore {
    /// `nil` when it is closed.
    private let rows = Mutex<MemoryIssuerRows?>(MemoryIssuerRows())

    func write<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result {
        try run(isWritable: true, body)
    }

    func read<Result: Sendable>(_ body: @escaping @Sendable (any IssuerTransaction) throws -> Result) async throws(IssuerError) -> Result {
        try run(isWritable: false, body)
    }

    func count<Result: Sendable>(_ body: @escaping @Sendable (any AttemptTransaction) throws -> Result) async throws(IssuerError) -> Result
    {
        try run(isWritable: true, body)
    }

    func close() throws(IssuerError) { rows.withLock { $0 = nil } }

    private func run<Result>(isWritable: Bool, _ body: (MemoryIssuerTransaction) throws -> Result) throws(IssuerError) -> Result {
        do {
            return try rows.withLock { rows in
                guard let before = rows else { throw MemoryIssuerTransaction.Rejected() }
                let transaction = MemoryIssuerTransaction(before, isWritable: isWritable)
                let result = try body(transaction)
                rows = transaction.rows
                return result
            }
        } catch { throw error as? IssuerError ?? .database(code: 1) }
    }
}

struct MemoryIssuerRows {
    struct User {
        var user: IssuerUser
        var key: String
        var created: Milliseconds
    }

    struct SetUpToken {
        var token: Digest256
        var kind: SetUpKind
        var expires: Milliseconds
    }

    struct Device {
        var authorization: DeviceAuthorization
        var client: ClientNetworks
    }

    struct Event {
        var subject: String
        var event: AccountEvent
    }

    // By subject.
    var users: [String: User] = [:]
    var passwords: [String: PasswordHash] = [:]
    var setUps: [String: SetUpToken] = [:]
    /// The subjects of the codes.
    var recoveryCodes: [Digest256: String] = [:]
    var passkeys: [[UInt8]: Passkey] = [:]
    var sessions: [Digest256: WebSession] = [:]
    /// Oldest first.
    var events: [Event] = []
    var invitations: [Digest256: Invitation] = [:]
    var codes: [Digest256: AuthorizationCode] = [:]
    var devices: [Digest256: Device] = [:]
    var resourceServers: [String: Digest256] = [:]
    var logins: [FamilyID: RefreshFamily] = [:]
    var keys: [String: SealedSigningKey] = [:]
    var seal: [UInt8]?
    /// When they end.
    var used: [Digest256: Milliseconds] = [:]
    var attempts: [Digest256: Attempts] = [:]

    /// Deletes logins, and what refers to them.
    mutating func removeLogins(where isGone: (RefreshFamily) -> Bool) {
        let gone = Set(logins.values.filter(isGone).map(\.id))
        logins = logins.filter { !gone.contains($0.key) }
        for (code, row) in invitations where row.redemption?.family.map(gone.contains) ?? false {
            invitations[code]?.redemption?.family = nil
        }
        for (code, row) in codes where row.redemption?.family.map(gone.contains) ?? false { codes[code]?.redemption?.family = nil }
    }
}

/// The issuer's rows in memory.
final class MemoryIssuerTransaction: IssuerTransaction {
    /// Why a statement fails: it breaks a rule of the rows, or writes in a transaction that reads.
    struct Rejected: Error {}

    private(set) var rows: MemoryIssuerRows
    private let isWritable: Bool

    init(_ rows: MemoryIssuerRows, isWritable: Bool) {
        self.rows = rows
        self.isWritable = isWritable
    }

    private func change<Result>(_ body: (inout MemoryIssuerRows) throws -> Result) throws -> Result {
        guard isWritable else { throw Rejected() }
        return try body(&rows)
    }

    /// Adds the row of a user.
    private func add<Key, Row>(_ row: Row, as key: Key, of subject: String?, to rows: WritableKeyPath<MemoryIssuerRows, [Key: Row]>) throws
    {
        try change { all in
            guard all[keyPath: rows][key] == nil, subject.map({ all.users[$0] != nil }) ?? true else { throw Rejected() }
            all[keyPath: rows][key] = row
        }
    }

    private static func isLess(_ first: Digest256, _ second: Digest256) -> Bool { first.bytes.lexicographicallyPrecedes(second.bytes) }

    // MARK: Users

    func insert(_ user: IssuerUser, key: String, now: Milliseconds) throws {
        guard !rows.users.values.contains(where: { $0.key == key }) else { throw Rejected() }
        try add(.init(user: user, key: key, created: now), as: user.subject, of: nil, to: \.users)
    }

    func users() -> [IssuerUser] { rows.users.values.sorted { ($0.created, $0.user.subject) < ($1.created, $1.user.subject) }.map(\.user) }

    func hasUser(_ subject: String) -> Bool { rows.users[subject] != nil }

    func rename(_ subject: String, to name: AccountName) throws {
        try change { rows in
            guard !rows.users.values.contains(where: { $0.key == name.key && $0.user.subject != subject }) else { throw Rejected() }
            rows.users[subject]?.user = IssuerUser(subject: subject, name: name.text)
            rows.users[subject]?.key = name.key
        }
    }

    func removeUser(_ subject: String) throws {
        try change { rows in
            rows.users[subject] = nil
            rows.passwords[subject] = nil
            rows.setUps[subject] = nil
            rows.recoveryCodes = rows.recoveryCodes.filter { $0.value != subject }
            rows.passkeys = rows.passkeys.filter { $0.value.subject != subject }
            rows.sessions = rows.sessions.filter { $0.value.subject != subject }
            rows.events.removeAll { $0.subject == subject }
            rows.invitations = rows.invitations.filter { $0.value.subject != subject }
            rows.codes = rows.codes.filter { $0.value.subject != subject }
            rows.devices = rows.devices.filter { $0.value.authorization.decision != .allowed(subject: subject) }
            rows.removeLogins { $0.subject == subject }
        }
    }

    func user(_ subject: String) -> IssuerUser? { rows.users[subject]?.user }

    func user(named name: AccountName) -> IssuerUser? { rows.users.values.first { $0.key == name.key }?.user }

    // MARK: How users sign in

    func password(of subject: String) -> PasswordHash? { rows.passwords[subject] }

    func setPassword(_ hash: PasswordHash, of subject: String) throws {
        try removePassword(of: subject)
        try add(hash, as: subject, of: subject, to: \.passwords)
    }

    func removePassword(of subject: String) throws { try change { $0.passwords[subject] = nil } }

    func insert(_ passkey: Passkey) throws { try add(passkey, as: passkey.id, of: passkey.subject, to: \.passkeys) }

    func passkey(_ id: [UInt8]) -> Passkey? { rows.passkeys[id] }

    func passkeys(of subject: String) -> [Passkey] {
        rows.passkeys.values.filter { $0.subject == subject }.sorted {
            $0.created == $1.created ? $0.id.lexicographicallyPrecedes($1.id) : $0.created < $1.created
        }
    }

    func update(_ passkey: Passkey) throws { try change { $0.passkeys[passkey.id]?.counter = passkey.counter } }

    func removePasskey(_ id: [UInt8]) throws { try change { $0.passkeys[id] = nil } }

    func removePasskeys(of subject: String) throws {
        try change { rows in rows.passkeys = rows.passkeys.filter { $0.value.subject != subject } }
    }

    func setSetUpToken(_ token: Digest256, _ kind: SetUpKind, of subject: String, expires: Milliseconds) throws {
        try removeSetUpToken(of: subject)
        try add(.init(token: token, kind: kind, expires: expires), as: subject, of: subject, to: \.setUps)
    }

    func setUp(_ token: Digest256, now: Milliseconds) -> (subject: String, kind: SetUpKind)? {
        rows.setUps.first { $0.value.token == token && $0.value.expires > now }.map { ($0.key, $0.value.kind) }
    }

    func removeSetUpToken(of subject: String) throws { try change { $0.setUps[subject] = nil } }

    func setRecoveryCodes(_ codes: [Digest256], of subject: String) throws {
        try change { rows in rows.recoveryCodes = rows.recoveryCodes.filter { $0.value != subject } }
        for code in codes { try add(subject, as: code, of: subject, to: \.recoveryCodes) }
    }

    func useRecoveryCode(_ code: Digest256, of subject: String) throws -> Bool {
        try change { rows in
            guard rows.recoveryCodes[code] == subject else { return false }
            rows.recoveryCodes[code] = nil
            return true
        }
    }

    func recoveryCodes(of subject: String) -> Int { rows.recoveryCodes.values.count { $0 == subject } }

    // MARK: Signed-in browsers

    func insert(_ session: WebSession) throws {
        try add(session, as: session.id, of: session.subject, to: \.sessions)
        for over in sessions(of: session.subject).dropFirst(WebSession.maximum) { try change { $0.sessions[over.id] = nil } }
    }

    func session(_ id: Digest256) -> WebSession? { rows.sessions[id] }

    func sessions(of subject: String) -> [WebSession] {
        rows.sessions.values.filter { $0.subject == subject }.sorted { $0.used == $1.used ? Self.isLess($0.id, $1.id) : $0.used > $1.used }
    }

    func setUsed(_ id: Digest256, at now: Milliseconds) throws { try change { $0.sessions[id]?.used = now } }

    func removeSession(_ id: Digest256, of subject: String) throws -> Bool {
        try change { rows in
            guard rows.sessions[id]?.subject == subject else { return false }
            rows.sessions[id] = nil
            return true
        }
    }

    func removeSessions(of subject: String) throws {
        try change { rows in
            rows.sessions = rows.sessions.filter { $0.value.subject != subject }
            rows.codes = rows.codes.filter { $0.value.subject != subject || $0.value.redemption != nil }
            rows.devices = rows.devices.filter { $0.value.authorization.decision != .allowed(subject: subject) }
        }
    }

    // MARK: Account events

    func note(_ kind: AccountEvent.Kind, of subject: String, _ detail: String, now: Milliseconds) throws {
        try change { rows in
            guard rows.users[subject] != nil else { throw Rejected() }
            let isFailure = kind == .signInFailed
            func isSame(_ row: MemoryIssuerRows.Event) -> Bool { row.subject == subject && (row.event.kind == .signInFailed) == isFailure }
            if isFailure {
                let start = now.count - AccountEvent.failureSpan
                let recent = rows.events.indices.filter { isSame(rows.events[$0]) && rows.events[$0].event.time.count > start }
                for index in recent { rows.events[index].event.count += 1 }
                guard recent.isEmpty else { return }
            }
            rows.events.append(.init(subject: subject, event: AccountEvent(kind: kind, detail: detail, time: now, count: 1)))
            let kept = isFailure ? AccountEvent.maximumFailuresKept : AccountEvent.maximumKept
            guard rows.events.count(where: isSame) > kept, let oldest = rows.events.firstIndex(where: isSame) else { return }
            rows.events.remove(at: oldest)
        }
    }

    func events(of subject: String) -> [AccountEvent] {
        let own = rows.events.filter { $0.subject == subject }.map(\.event).enumerated()
        return own.sorted { ($0.element.time, $0.offset) > ($1.element.time, $1.offset) }.map(\.element)
    }

    // MARK: Invitations

    func insert(_ invitation: Invitation) throws { try add(invitation, as: invitation.code, of: invitation.subject, to: \.invitations) }

    func openInvitations(of subject: String, now: Milliseconds) -> Int {
        rows.invitations.values.count { $0.subject == subject && $0.redemption == nil && $0.expires > now }
    }

    func invitation(_ code: Digest256) -> Invitation? { rows.invitations[code] }

    func removeOpenInvitations(madeBy key: String) throws {
        try change { rows in rows.invitations = rows.invitations.filter { $0.value.inviter?.key != key || $0.value.redemption != nil } }
    }

    func redeem(_ code: Digest256, _ redemption: Invitation.Redemption) throws {
        try change { $0.invitations[code]?.redemption = redemption }
    }

    // MARK: Authorizations of clients

    func insert(_ code: AuthorizationCode) throws {
        try add(code, as: code.code, of: code.subject, to: \.codes)
        try change { rows in
            let own = rows.codes.values.filter { $0.subject == code.subject }
            let over = own.sorted { $0.expires == $1.expires ? Self.isLess($0.code, $1.code) : $0.expires > $1.expires }
            for code in over.dropFirst(AuthorizationCode.maximum) { rows.codes[code.code] = nil }
        }
    }

    func authorizationCode(_ code: Digest256) -> AuthorizationCode? { rows.codes[code] }

    func redeem(authorizationCode code: Digest256, _ redemption: Invitation.Redemption) throws {
        try change { $0.codes[code]?.redemption = redemption }
    }

    func insert(_ authorization: DeviceAuthorization, from client: ClientNetworks) throws {
        guard deviceAuthorization(userCode: authorization.userCode) == nil else { throw Rejected() }
        try add(.init(authorization: authorization, client: client), as: authorization.code, of: nil, to: \.devices)
    }

    func deviceAuthorization(_ code: Digest256) -> DeviceAuthorization? { rows.devices[code]?.authorization }

    func deviceAuthorization(userCode: Digest256) -> DeviceAuthorization? {
        rows.devices.values.first { $0.authorization.userCode == userCode }?.authorization
    }

    func makeRoomForDeviceAuthorization(at now: Milliseconds) throws -> Bool {
        let unexpired = rows.devices.values.filter { $0.authorization.expires > now }
        guard unexpired.count >= DeviceAuthorization.maximum else { return true }
        func most(_ devices: [MemoryIssuerRows.Device], _ name: (MemoryIssuerRows.Device) -> String) -> [MemoryIssuerRows.Device] {
            Dictionary(grouping: devices, by: name).values.max { $0.count < $1.count } ?? []
        }
        let network = most(unexpired.filter { $0.authorization.decision == .pending }) { $0.client.largest }
        let address = most(network) { $0.client.smallest }
        guard let oldest = address.min(by: { $0.authorization.expires < $1.authorization.expires }) else { return false }
        try removeDeviceAuthorization(oldest.authorization.code)
        return true
    }

    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision) throws {
        try change { rows in
            if case .allowed(let subject) = decision, rows.users[subject] == nil { throw Rejected() }
            rows.devices[code]?.authorization.decision = decision
        }
    }

    func removeDeviceAuthorization(_ code: Digest256) throws { try change { $0.devices[code] = nil } }

    // MARK: Limits

    func use(_ id: Digest256, until end: Milliseconds) throws -> Bool {
        try change { rows in
            guard rows.used[id] == nil else { return false }
            rows.used[id] = end
            return true
        }
    }

    // MARK: Resource servers

    func setResourceServer(_ name: String, secret: Digest256) throws { try change { $0.resourceServers[name] = secret } }

    func removeResourceServer(_ name: String) throws -> Bool { try change { $0.resourceServers.removeValue(forKey: name) != nil } }

    func secret(ofResourceServer name: String) -> Digest256? { rows.resourceServers[name] }

    func resourceServers() -> [String] { rows.resourceServers.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }

    // MARK: Logins

    func insert(_ family: RefreshFamily) throws { try add(family, as: family.id, of: family.subject, to: \.logins) }

    func family(_ id: FamilyID) -> RefreshFamily? { rows.logins[id] }

    func family(session: String) -> RefreshFamily? { rows.logins.values.first { $0.id.session == session } }

    func openLogins(boundTo key: String, session: String?) -> [RefreshFamily] {
        rows.logins.values.filter { $0.revoked == nil && ($0.key == key || $0.id.session == session) }
    }

    /// Latest first.
    func openLogins(of subject: String) -> [RefreshFamily] {
        rows.logins.values.filter { $0.revoked == nil && $0.subject == subject }.sorted {
            $0.rotated == $1.rotated ? $0.id.bytes.lexicographicallyPrecedes($1.id.bytes) : $0.rotated > $1.rotated
        }
    }

    func openLogins(of subject: String, upTo count: Int) -> [RefreshFamily] { Array(openLogins(of: subject).prefix(count)) }

    func openLogins(of subject: String, beyond count: Int) -> [RefreshFamily] { Array(openLogins(of: subject).dropFirst(count)) }

    func endpointRevoked(boundTo key: String, session: String?) throws {
        try change { rows in
            for (id, login) in rows.logins where login.key == key || id.session == session { rows.logins[id]?.isOfRevokedEndpoint = true }
        }
    }

    func revoked(since time: Milliseconds) -> [RefreshFamily] { rows.logins.values.filter { $0.revoked.map { $0 > time } ?? false } }

    func update(_ family: RefreshFamily) throws {
        try change { rows in
            guard var stored = rows.logins[family.id] else { return }
            (stored.rotated, stored.current) = (family.rotated, family.current)
            (stored.revoked, stored.isOfReusedLink) = (family.revoked, family.isOfReusedLink)
            rows.logins[family.id] = stored
        }
    }

    func forgetRevokedLogins(of subject: String, before time: Milliseconds) throws {
        try change { rows in
            let latest = rows.logins.values.filter { $0.subject == subject && $0.revoked != nil }.sorted {
                $0.revoked == $1.revoked ? $0.id.bytes.lexicographicallyPrecedes($1.id.bytes) : ($0.revoked ?? 0) > ($1.revoked ?? 0)
            }
            let over = Set(latest.dropFirst(RefreshFamily.maximumRevoked).map(\.id))
            rows.removeLogins { over.contains($0.id) && $0.revoked.map { $0 <= time } ?? false }
        }
    }

    func forget(before now: Milliseconds) throws {
        func isOver(_ time: Milliseconds, after life: Int64) -> Bool { time.count <= now.count - life }
        try change { rows in
            rows.codes = rows.codes.filter { !isOver($0.value.expires, after: AuthorizationCode.memory) }
            rows.devices = rows.devices.filter { !isOver($0.value.authorization.expires, after: DeviceAuthorization.memory) }
            rows.setUps = rows.setUps.filter { !isOver($0.value.expires, after: 0) }
            rows.sessions = rows.sessions.filter { !$0.value.isOver(at: now) }
            rows.invitations = rows.invitations.filter { $0.value.expires.count >= now.count - Invitation.memory }
            rows.removeLogins { $0.isOver(at: now) }
        }
    }

    // MARK: Keys

    func insert(_ key: SealedSigningKey) throws { try add(key, as: key.entry.id, of: nil, to: \.keys) }

    func removeKey(_ id: String) throws { try change { $0.keys[id] = nil } }

    func sealedKeys() -> [SealedSigningKey] { Array(rows.keys.values) }

    func seal() -> [UInt8]? { rows.seal }

    func setSeal(_ seal: [UInt8]) throws {
        try change { rows in
            guard rows.seal == nil else { throw Rejected() }
            rows.seal = seal
        }
    }
}

extension MemoryIssuerTransaction: AttemptTransaction {
    func attempts(_ id: Digest256) -> Attempts? { rows.attempts[id] }

    func heldAttempts(_ id: Digest256, now: Milliseconds) throws -> Attempts? {
        if rows.attempts[id] == nil { try change { $0.attempts[id] = Attempts(time: now) } }
        return attempts(id)
    }

    func set(_ attempts: Attempts, _ id: Digest256) throws {
        try change { rows in if rows.attempts[id] != nil { rows.attempts[id] = attempts } }
    }

    func takeAttemptBack(_ id: Digest256) throws {
        try change { rows in
            guard let attempts = rows.attempts[id], attempts.count > 0 else { return }
            rows.attempts[id] = Attempts(count: attempts.count - 1, time: attempts.time)
        }
    }

    func removeAttempts(_ id: Digest256) throws { try change { $0.attempts[id] = nil } }

    func forgetEnded(before now: Milliseconds) throws {
        try change { rows in
            rows.used = rows.used.filter { $0.value.count > now.count - UsedOnce.memory }
            rows.attempts = rows.attempts.filter { $0.value.time.count > now.count - Attempts.memory }
        }
    }
}
