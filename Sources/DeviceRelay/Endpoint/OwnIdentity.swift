// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayStorage

/// What this endpoint says of itself: its record, its account, and the keys that open what is sealed for it.
final class OwnIdentity {
    /// What makes another attempt useful after the relay has rejected a hello.
    enum Recovery {
        /// The relay has told the account for the first time, or another one than before, as it may after another sign-in.
        case account(String, isOther: Bool)
        /// There is a newer record.
        case record
    }

    private let endpoint: EndpointContext
    /// The account's id at the relay, as records name it; `nil` before the relay has told it.
    private(set) var account: String?
    private var record: Signed<EndpointRecord>?
    /// As they were read last, the newest first; read anew at least on every connection, so that those destroyed do not stay.
    private var agreementKeys: [any AgreementKey] = []
    private var invitationProof: Secret<[UInt8]>?
    /// The relay may tell another account than before.
    private var mayChangeAccount = false
    /// How often in a row the relay had a newer record than this endpoint.
    private var outdatedRecords = 0
    /// The relay has a newer one than this.
    private var outdatedVersion: UInt64 = 0

    init(_ endpoint: EndpointContext, stored: JournalTransaction.OwnEndpoint, invitationProof: Secret<[UInt8]>?) {
        self.endpoint = endpoint
        self.account = stored.account
        self.record = stored.record.flatMap { try? Signed<EndpointRecord>(verifying: $0) }
        self.invitationProof = invitationProof
    }

    private var storage: AccountStorage { endpoint.storage }
    private var journal: Journal { endpoint.journal }

    // MARK: The record

    /// The signed record: the one that was signed last, unless something about it has changed.
    func currentRecord() throws -> Signed<EndpointRecord> {
        agreementKeys = try storage.rotateAgreementKey(now: endpoint.loop.wallTime).keys
        guard let key = agreementKeys.first else { throw StorageError(.damaged, path: storage.journalPath) }
        // Another process of this endpoint may have signed a newer one.
        let stored = try journal.read { try $0.ownEndpoint().record }
        if let stored = try stored.map({ try Signed<EndpointRecord>(verifying: $0) }), stored.payload.version > record?.payload.version ?? 0
        {
            record = stored
        }
        if let record, isCurrent(record.payload, key.publicKey) { return record }
        let device = endpoint.settings.device
        let fresh = try Signed(
            EndpointRecord(
                version: try storage.nextVersion(),
                account: account ?? Self.unknownAccount,
                identityKey: endpoint.identityKey.publicKey,
                systemKey: endpoint.systemKey,
                agreementKey: key.publicKey,
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

    /// Stands in a record until the relay has told the account.
    private static let unknownAccount = "unknown"

    private var proof: [UInt8]? {
        invitationProof.map { InvitationProof.make(secret: $0.exposed, endpoint: endpoint.id) } ?? record?.payload.invitationProof
    }

    private func isCurrent(_ record: EndpointRecord, _ agreementKey: AgreementPublicKey) -> Bool {
        let device = endpoint.settings.device
        return record.version > outdatedVersion && record.account == (account ?? Self.unknownAccount)
            && record.identityKey == endpoint.identityKey.publicKey
            && record.systemKey == endpoint.systemKey.publicKey && record.agreementKey == agreementKey && record.name == device.name
            && record.kind == device.kind.rawValue && record.platform == device.platform.rawValue
            && record.manufacturer == device.manufacturer && record.model == device.model && record.invitationProof == proof
    }

    /// What opens what is sealed for this endpoint's key of that id; nothing of use if the keys are damaged, since waiting does not mend that.
    /// They are read only if none of those read last is meant: another process of this endpoint may have made a new one.
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

    /// The person has signed in again, perhaps to another account: which one, the relay tells once more.
    func signedInAgain() { mayChangeAccount = true }

    /// This endpoint was invited anew.
    func setInvitationProof(_ secret: Secret<[UInt8]>) { invitationProof = secret }

    /// The relay has accepted the record, and said by that which account it is; without another sign-in it may not say another one.
    func welcomed() {
        outdatedRecords = 0
        mayChangeAccount = false
    }

    /// Some refusals only ask for another record.
    func recovery(from rejected: RelayMessage.Rejected) throws -> Recovery? {
        switch rejected.code {
        case .wrongAccount:
            // Which account it is, the token alone says; so the relay tells it the first time. A token of another person later is a mistake.
            guard account == nil || mayChangeAccount, let account = rejected.account, ProgramText.isValid(account) else { return nil }
            mayChangeAccount = false
            return .account(account, isOther: setAccount(account))
        case .recordOutdated where outdatedRecords < 2:
            outdatedRecords += 1
            // Another process may have signed a newer one; or the storage was restored from a copy, and the count with it.
            if outdatedRecords > 1 { try storage.raiseVersion(to: UInt64(clamping: max(0, endpoint.loop.wallTime))) }
            outdatedVersion = record?.payload.version ?? 0
            _ = try currentRecord()
            return .record
        default: return nil
        }
    }

    /// The relay has told which of its accounts this is. In another account than before nothing is known, and nothing becomes known by being
    /// listed: else a relay could have its own endpoints believed by changing the account.
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
