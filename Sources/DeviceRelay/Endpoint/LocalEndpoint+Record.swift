// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayStorage

// What this endpoint says of itself.
extension LocalEndpoint {
    /// The signed record: the one that was signed last, unless something about it has changed.
    func currentRecord() throws -> Signed<EndpointRecord> {
        agreementKeys = try storage.rotateAgreementKey(now: wallTime).keys
        guard let key = agreementKeys.first else { throw StorageError(.damaged, path: storage.journalPath) }
        // Another process of this endpoint may have signed a newer one.
        let stored = try journal.read { try $0.ownEndpoint().record }
        if let stored = try stored.map({ try Signed<EndpointRecord>(verifying: $0) }), stored.payload.version > record?.payload.version ?? 0
        {
            record = stored
        }
        if let record, isCurrent(record.payload, key.publicKey) { return record }
        let fresh = try Signed(
            EndpointRecord(
                version: try storage.nextVersion(),
                account: relayAccount ?? Self.unknownAccount,
                identityKey: identityKey.publicKey,
                systemKey: systemKey,
                agreementKey: key.publicKey,
                name: settings.device.name,
                kind: settings.device.kind.rawValue,
                platform: settings.device.platform.rawValue,
                manufacturer: settings.device.manufacturer,
                model: settings.device.model,
                invitationProof: proof
            ),
            key: identityKey
        )
        record = fresh
        journal.write {
            try $0.setRecord(fresh.encoded)
        } completion: { _ in
        }
        return fresh
    }

    /// Stands in a record until the relay has told the account.
    private static let unknownAccount = "unknown"

    private var proof: [UInt8]? {
        invitationProof.map { InvitationProof.make(secret: $0.exposed, endpoint: id) } ?? record?.payload.invitationProof
    }

    private func isCurrent(_ record: EndpointRecord, _ agreementKey: AgreementPublicKey) -> Bool {
        let device = settings.device
        return record.version > outdatedVersion && record.account == (relayAccount ?? Self.unknownAccount)
            && record.identityKey == identityKey.publicKey
            && record.systemKey == systemKey.publicKey && record.agreementKey == agreementKey && record.name == device.name
            && record.kind == device.kind.rawValue && record.platform == device.platform.rawValue
            && record.manufacturer == device.manufacturer && record.model == device.model && record.invitationProof == proof
    }

    /// The relay has told which of its accounts this is. In another account than before nothing is known, and nothing becomes known by being
    /// listed: else a relay could have its own endpoints believed by changing the account.
    func setRelayAccount(_ account: String) {
        let isOther = relayAccount != nil
        relayAccount = account
        peers = peers.emptied(for: account, isOther: isOther)
        if isOther { logger.warning("the relay assigned this endpoint to another account; the endpoints of the old one are forgotten") }
        publishDirectory()
        journal.write {
            try $0.setAccount(account)
            guard isOther else { return }
            try $0.forgetPeers()
            try $0.setEnumerated()
        } completion: { _ in
        }
    }
}
