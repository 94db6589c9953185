// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayStorage

/// This endpoint's record, account and agreement keys.
final class OwnIdentity {
    /// Why another attempt can succeed after the relay has rejected a hello.
    enum Recovery {
        /// The relay has stated the account: for the first time, or another account after a new sign-in. `adopt` takes it.
        case account(StatedAccount)
        /// There is a newer record to send.
        case record
    }

    /// The account of the login, as the relay has stated it.
    struct StatedAccount: Sendable {
        let id: String
        /// Safe to show.
        let name: String?
    }

    private let endpoint: EndpointContext
    /// The account's id at the relay, as it appears in records; `nil` before the relay has stated it.
    private(set) var account: String?
    /// The account's name at the relay, for people; `nil` if the relay has stated none.
    private var accountName: String?
    private var record: Signed<EndpointRecord>?
    /// The keys that were read last, the newest first. They are read again on every connection, so that destroyed keys do not stay in
    /// memory.
    private var agreementKeys: [any AgreementKey] = []
    private var invitationProof: Secret<[UInt8]>?
    /// Whether the relay may state another account than before.
    private var mayChangeAccount = false
    /// The number of consecutive hellos that the relay rejected because it had a newer record.
    private var outdatedRecords = 0
    /// The version of the record that the relay rejected as outdated.
    private var outdatedVersion: UInt64 = 0

    init(_ endpoint: EndpointContext, stored: JournalTransaction.OwnEndpoint, invitationProof: Secret<[UInt8]>?) {
        self.endpoint = endpoint
        self.account = stored.account
        self.accountName = endpoint.status.value.accountName
        self.record = stored.record.flatMap { try? Signed<EndpointRecord>(verifying: $0) }
        self.invitationProof = invitationProof
    }

    private var storage: AccountStorage { endpoint.storage }
    private var journal: Journal { endpoint.journal }

    // MARK: The record

    /// The signed record. A new record is signed only if its content has changed.
    func currentRecord() throws -> Signed<EndpointRecord> {
        agreementKeys = try storage.rotateAgreementKey(now: endpoint.loop.wallTime).keys
        guard let key = agreementKeys.first else { throw StorageError(.damaged, path: storage.journalPath) }
        let linkKey = try storage.linkKey().publicKey
        // Another process of this endpoint may have signed a newer record.
        let stored = try journal.read { try $0.ownEndpoint().record }
        if let stored = try stored.map({ try Signed<EndpointRecord>(verifying: $0) }), stored.payload.version > record?.payload.version ?? 0
        {
            record = stored
        }
        let device = endpoint.device
        if let record, isCurrent(record.payload, device, key.publicKey, linkKey) { return record }
        let fresh = try Signed(
            EndpointRecord(
                version: try storage.nextVersion(),
                account: account ?? Self.unknownAccount,
                identityKey: endpoint.identityKey.publicKey,
                systemKey: endpoint.systemKey,
                agreementKey: key.publicKey,
                linkKey: linkKey,
                name: device.name,
                kind: device.kind.rawValue,
                platform: device.platform.rawValue,
                manufacturer: device.manufacturer,
                model: device.model,
                invitationProof: proof
            ),
            key: endpoint.identityKey
        )
        record = fresh
        journal.writeLater { try $0.setRecord(fresh.encoded) }
        return fresh
    }

    /// Answers a relay's challenge: proves the token, the record and the identity key.
    func hello(
        to challenge: RelayMessage.Challenge,
        _ token: Secret<String>,
        at origin: String,
        _ role: EndpointMessage.Hello.Role,
        instance: [UInt8]
    ) throws -> EndpointMessage.Hello {
        let record = try currentRecord()
        let statement = HelloStatement(
            relay: challenge.relay,
            origin: origin,
            nonce: challenge.nonce.bytes,
            token: token.exposed,
            record: record.encoded
        )
        return EndpointMessage.Hello(
            version: 1,
            token: token,
            record: Blob(record.encoded),
            origin: origin,
            signature: Blob(try statement.sign(with: endpoint.identityKey)),
            role: role,
            instance: Blob(instance),
            features: [ControlFeatures.moved]
        )
    }

    /// The account in a record before the relay has stated the account.
    private static let unknownAccount = "unknown"

    private var proof: [UInt8]? {
        invitationProof.map { InvitationProof.make(secret: $0.exposed, endpoint: endpoint.id) } ?? record?.payload.invitationProof
    }

    private func isCurrent(
        _ record: EndpointRecord,
        _ device: DeviceDescription,
        _ agreementKey: AgreementPublicKey,
        _ linkKey: AgreementPublicKey
    ) -> Bool {
        record.version > outdatedVersion && record.account == (account ?? Self.unknownAccount)
            && record.identityKey == endpoint.identityKey.publicKey
            && record.systemKey == endpoint.systemKey.publicKey && record.agreementKey == agreementKey && record.linkKey == linkKey
            && record.name == device.name
            && record.kind == device.kind.rawValue && record.platform == device.platform.rawValue
            && record.manufacturer == device.manufacturer && record.model == device.model && record.invitationProof == proof
    }

    /// The agreement keys, which include the key with this id if it exists. The keys are read again only if none of the cached keys has the
    /// id, because another process of this endpoint may have created a new key. If the stored keys are damaged, the result is empty,
    /// because waiting does not repair them.
    func agreementKeys(for id: [UInt8]) throws(StorageError) -> [any AgreementKey] {
        if agreementKeys.contains(where: { $0.publicKey.keyID == id }) { return agreementKeys }
        do {
            agreementKeys = try storage.agreementKeys()
        } catch {
            guard case .damaged = error.problem else { throw error }
            agreementKeys = []
        }
        return agreementKeys
    }

    // MARK: The account

    /// Records a new sign-in, after which the relay may state another account.
    func signedInAgain() { mayChangeAccount = true }

    /// Sets the secret of a new invitation of this endpoint.
    func setInvitationProof(_ secret: Secret<[UInt8]>) { invitationProof = secret }

    /// Records that the relay has accepted the record and its account. Without a new sign-in the relay must not state another account.
    func welcomed(_ welcome: RelayMessage.Welcome) {
        setAccountName(welcome.accountName)
        let software = Self.shown(welcome.software)
        if endpoint.status.value.relaySoftware != software { endpoint.status.update { $0.relaySoftware = software } }
        outdatedRecords = 0
        mayChangeAccount = false
    }

    /// Decides whether a rejection only requires another record.
    func recovery(from rejected: RelayMessage.Rejected) throws -> Recovery? {
        switch rejected.code {
        case .wrongAccount:
            // Only the token determines the account, so the relay states it the first time. A token of another account later is an error.
            guard account == nil || mayChangeAccount, let account = rejected.account, ProgramText.isValid(account),
                account != AnonymousAccount.id
            else { return nil }
            return .account(StatedAccount(id: account, name: Self.shown(rejected.accountName)))
        case .recordOutdated where outdatedRecords < 2:
            outdatedRecords += 1
            // Another process may have signed a newer record. Or the storage, including the version counter, was restored from a backup.
            if outdatedRecords > 1 { try storage.raiseVersion(to: UInt64(clamping: max(0, endpoint.loop.wallTime))) }
            outdatedVersion = record?.payload.version ?? 0
            _ = try currentRecord()
            return .record
        default: return nil
        }
    }

    /// Takes the account that the relay has stated: the next record is for it.
    /// - Returns: Whether there was another one before.
    func adopt(_ account: StatedAccount) -> Bool {
        mayChangeAccount = false
        setAccountName(account.name)
        return setAccount(account.id)
    }

    /// A text is the relay's statement: it is bounded, and made safe to show.
    private static func shown(_ text: String?) -> String? {
        text.map { DisplayText.sanitized(String($0.prefix(maximumCharacters))) }
    }

    private func setAccountName(_ stated: String?) {
        let name = Self.shown(stated)
        guard name != accountName else { return }
        accountName = name
        endpoint.status.update { $0.accountName = name }
        do {
            try storage.setAccountName(name)
        } catch {
            // It is only shown, and the relay states it again on the next connection.
            endpoint.logger.warning("the account's name cannot be stored", metadata: ["error": "\(error)"])
        }
    }

    private static let maximumCharacters = 64

    /// Stores the account that the relay states. If there was another account before, all peers are forgotten, and listed endpoints are not
    /// pinned. Otherwise a relay could make its own endpoints known by changing the account.
    /// - Returns: Whether there was another one before.
    private func setAccount(_ account: String) -> Bool {
        let isOther = self.account != nil
        self.account = account
        journal.writeLater {
            try $0.setAccount(account)
            guard isOther else { return }
            try $0.forgetPeers()
            try $0.setEnumerated()
        }
        return isOther
    }
}
