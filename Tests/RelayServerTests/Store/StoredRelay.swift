// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage
import Testing

@testable import RelayIssuer
@testable import RelayServer

/// A data directory whose SQLite files have rows in every table, as a relay writes them.
final class StoredRelay {
    let directory: String
    let key: RelayKey

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    /// - Parameter hasRows: Without them, it has the keys alone.
    init(hasRows: Bool = true) async throws {
        directory = try temporaryDirectory()
        key = try RelayKey.load(in: directory)
        guard hasRows else { return }
        try await addRelayRows()
        try await addIssuerRows()
    }

    /// With the keys of another one.
    init(keysOf other: StoredRelay) throws {
        directory = try temporaryDirectory()
        try FileManager.default.createDirectory(
            atPath: directory,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        for name in ["relay.key", "issuer.key"] {
            try FileManager.default.copyItem(atPath: "\(other.directory)/\(name)", toPath: "\(directory)/\(name)")
        }
        key = try RelayKey.load(in: directory)
    }

    static func makeIssuerKey(in relay: StoredRelay) throws -> MasterKey {
        try MasterKey(path: "\(relay.directory)/issuer.key", mayCreate: true)
    }

    // MARK: Files

    func database(_ name: String) throws -> DatabaseQueue { try DatabaseQueue(path: "\(directory)/\(name)") }

    /// Runs statements in the file of a table.
    func run(_ sql: String, in file: String) throws {
        let database = try database(file)
        try database.writeWithoutTransaction { database in
            // Damage that a disk, or an operator, does.
            try database.execute(sql: "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
            try database.execute(sql: sql)
        }
        try database.close()
    }

    /// All rows of each table, in the order of their keys, as texts.
    func rows() throws -> [String: [String]] {
        var all: [String: [String]] = [:]
        for (file, tables) in [(RelayTables.fileName, RelayTables.all), (IssuerTables.fileName, IssuerTables.all)] {
            let database = try database(file)
            for table in tables {
                all[table.name] = try database.read { database in
                    try Row.fetchAll(database, sql: "SELECT * FROM \(table.quoted) ORDER BY \(table.order)").map { row in
                        row.filter { !table.own.contains($0.0) }.sorted { $0.0 < $1.0 }.map { "\($0.0)=\($0.1)" }.joined(separator: ", ")
                    }
                }
            }
            try database.close()
        }
        return all
    }

    /// The tables of the files, without those of the libraries.
    func tables() throws -> Set<String> {
        Set(
            try [RelayTables.fileName, IssuerTables.fileName].flatMap { file in
                try database(file).read { database in
                    try String.fetchAll(
                        database,
                        sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> 'grdb_migrations'"
                    )
                }
            }
        )
    }

    // MARK: Rows of the relay

    private struct Device {
        let key = P256SigningKey()
        let agreement = P256AgreementKey()
        let system = P256SigningKey()
        let account: AccountID
        let name: String

        var id: EndpointID { EndpointID(key.publicKey) }

        func record() throws -> Signed<EndpointRecord> {
            try Signed(
                EndpointRecord(
                    version: 1,
                    account: account.rawValue,
                    identityKey: key.publicKey,
                    systemKey: system,
                    agreementKey: agreement.publicKey,
                    name: name,
                    kind: "desktop",
                    platform: "linux"
                ),
                key: key
            )
        }

        func row() throws -> EndpointRow {
            EndpointRow(
                id: id,
                account: account,
                version: 1,
                record: try record().encoded,
                departure: .init(reason: .suspended, time: 5),
                system: SystemID(system.publicKey),
                keyThumbprint: key.publicKey.jwkThumbprint,
                joining: Joining(time: 7, address: "2001:db8::1"),
                login: Login(issuer: "embedded", session: "s")
            )
        }
    }

    private func addRelayRows() async throws {
        let store = try SQLiteStore(directory: directory)
        let identities = ["me", "other", "gone"].map { Identity(issuer: "https://issuer.example", subject: $0) }
        let accounts = identities.map { AccountID(of: $0) }
        let (pc, phone, lost) = (
            Device(account: accounts[0], name: "PC 🎬"), Device(account: accounts[0], name: "Phone"),
            Device(account: accounts[0], name: "Lost")
        )
        let commands = try (1...6).map { try command($0, from: phone, to: pc) }
        let states = try states(commands, pc)
        let sealed = try key.seal(
            Array(try JSONEncoder().encode(StoredCredential.wnsPackage(sid: "ms-app://s", secret: Secret("canary-secret")))),
            label: "push credential c"
        )
        try await store.transact { store in
            try store.setDatabaseBegan(1_000)
            for (account, identity) in zip(accounts, identities) { try store.addAccount(account, identity: identity, time: 1) }
            try store.setName("Anna 🎬", of: accounts[0])
            try store.setDisabled(true, of: accounts[1])
            try store.setQuota(.endpointsPerAccount, to: 20, of: accounts[0])
            try store.add(AccountIdentity(Identity(issuer: "embedded", subject: "me"), linker: pc.id, added: 2), to: accounts[0])
            try store.removeAccount(accounts[2], time: 3)
            try store.addRevokedToken("token", ends: .max, now: 1)
            for device in [pc, phone, lost] { try store.put(try device.row()) }
            let registration = AppRegistration(
                version: 3,
                account: accounts[0].rawValue,
                endpoint: pc.id,
                appID: "player",
                displayName: "canary-app",
                schemes: [.init(name: "https")]
            )
            let row = RegistrationRow(appID: "player", version: 3, registration: try Signed(registration, key: pc.key).encoded)
            try store.put(row, of: pc.id, in: accounts[0])
            let voucher = Voucher(by: pc.id, for: try phone.record(), time: 4)
            try store.putVoucher(try Signed(voucher, key: pc.key).encoded, for: phone.id, by: pc.id, of: accounts[0])
            var push = PushRow(
                endpoint: phone.id,
                account: accounts[0],
                appID: "player",
                displayName: "Player",
                channel: .fcm(token: Secret("canary-token")),
                registered: 1
            )
            push.sent(.urgent, at: 8)
            try store.put(push)
            try store.removeEndpoint(lost.id, of: accounts[0])
            let revocation = Revocation(of: lost.id, by: pc.id, account: accounts[0].rawValue, time: 9)
            let statement = RevocationRow.Statement(revoker: pc.id, revocation: try Signed(revocation, key: pc.key).encoded)
            try store.add(RevocationRow(of: try lost.row(), statement: statement, time: 9, isKept: true, loginsEnded: false))
            for (command, state) in zip(commands, states) {
                let stored = MailboxCommand(restoring: command.descriptor, state: .stored)
                _ = try store.add(stored, urgency: .urgent, blob: command.encoded, account: accounts[0])
                try store.update(MailboxCommand(restoring: command.descriptor, state: state), account: accounts[0])
            }
            // Numbers have gaps.
            try store.removeCommand(StoredCommandKey(account: accounts[0], command: commands[2].descriptor.key))
            var identity = AppIdentity(id: "films.example", apps: [.init(.linux, id: "player")], proof: "proof", created: 1)
            identity.unproven = Set(identity.apps)
            try store.put(identity)
            try store.add(CredentialRow(id: "c", identity: "films.example", type: "wns", label: "l", sealed: sealed, created: 1))
        }
        store.close()
    }

    private func command(_ number: Int, from phone: Device, to pc: Device) throws -> SealedCommand {
        try SealedCommand(
            .launch(.init(uri: try LaunchURI("canary:\(number)"))),
            header: CommandHeader(
                id: try #require(CommandID("018f0000-0000-7000-8000-00000000000\(number)")),
                account: pc.account.rawValue,
                relay: key.id,
                sender: phone.id,
                target: pc.id,
                senderApp: nil,
                targetApp: "player",
                keyID: pc.agreement.publicKey.keyID,
                kind: .launch,
                number: UInt64(number),
                created: 1_000,
                expires: 300_000
            ),
            target: pc.agreement.publicKey,
            key: phone.key
        )
    }

    private func states(_ commands: [SealedCommand], _ pc: Device) throws -> [MailboxCommand.State] {
        func receipt(_ index: Int, _ outcome: CommandOutcome, reply: [UInt8]? = nil) throws -> [UInt8] {
            try Signed(CommandReceipt(for: commands[index].descriptor, outcome: outcome, reply: reply, time: 9), key: pc.key).encoded
        }
        let failed = CommandOutcome.failed(reason: "canary-reason")
        return [
            .stored, .offered(received: false, cancelRequested: true), .offered(received: false, cancelRequested: false),
            .final(CommandFinal(outcome: failed, receipt: try receipt(3, failed), reply: nil), since: 9),
            .final(CommandFinal(outcome: .succeeded, receipt: try receipt(4, .succeeded, reply: [3]), reply: [3]), since: 9),
            .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost)), since: 9),
        ]
    }

    // MARK: Rows of the issuer

    private func addIssuerRows() async throws {
        let (store, master) = try Issuer.openStore(in: directory)
        let (ada, bob) = ("ada-0123456789ab", "bob-0123456789ab")
        @Sendable func digest(_ number: Int) -> Digest256 { Digest256(hashing: Array("\(number)".utf8)) }
        let passkey = try #require(PasskeyKey(algorithm: -7, spki: P256SigningKey().publicKey.spki))
        let login = RefreshFamily(
            id: FamilyID(Array(repeating: 1, count: 16)),
            subject: ada,
            client: "com.example.app",
            device: "canary-device",
            scopes: .all,
            key: P256SigningKey().publicKey.jwkThumbprint,
            invitedBy: EndpointID(P256SigningKey().publicKey),
            created: 1,
            rotated: 2,
            revoked: nil
        )
        let code = AuthorizationCode(
            code: digest(1),
            subject: ada,
            client: "com.example.app",
            redirect: "com.example.app:/done",
            challenge: digest(2),
            scopes: .all,
            expires: 9
        )
        let device = DeviceAuthorization(
            code: digest(3),
            userCode: digest(4),
            client: "com.example.app",
            scopes: .all,
            device: "canary-device",
            platform: "linux",
            expires: 9
        )
        let inviter = Invitation.Inviter(key: P256SigningKey().publicKey.jwkThumbprint, endpoint: EndpointID(P256SigningKey().publicKey))
        try await store.write { records throws in
            try records.insert(IssuerUser(subject: ada, name: "Ada"), key: "ada", now: 1)
            try records.insert(IssuerUser(subject: bob, name: "Bob 🎬"), key: "bob 🎬", now: 2)
            try records.setPassword(PasswordHash(decoyOf: .init()), of: ada)
            try records.setSetUpToken(digest(5), .reset, of: bob, expires: 9)
            try records.setRecoveryCodes([digest(6), digest(7)], of: ada)
            try records.insert(Passkey(id: [1, 2], subject: ada, key: passkey, name: "canary-name", created: 3, counter: .max))
            try records.insert(WebSession(id: digest(8), subject: ada, agent: "canary-agent", created: 1, used: 2))
            for kind in [AccountEvent.Kind.signedIn, .signInFailed] { try records.note(kind, of: ada, "canary-detail", now: 1) }
            try records.insert(login)
            try records.insert(Invitation(code: digest(9), subject: ada, inviter: inviter, expires: 9))
            try records.redeem(digest(9), .init(key: login.key, family: login.id))
            try records.insert(code)
            try records.insert(device, from: ClientNetworks(["192.0.2.1"]))
            try records.setResourceServer("films", secret: digest(10))
            try records.insert(P256SigningKey(), activates: 1, sealedBy: master)
            _ = try records.use(digest(11), until: 9)
        }
        try await store.count { records throws in
            _ = try records.heldAttempts(digest(12), now: 1)
        }
        try store.close()
    }
}
