// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
package import RelayStorage

/// How the rows of the relay's tables are decoded: as the relay does, and as devices do with what it sends them.
extension StoreDatabase {
    /// - Parameter key: It opens push credentials.
    package func relayChecks(with key: RelayKey) -> [TableCheck<ResultRow>] {
        let transaction = SQLTransaction(database: self)
        var checks: [String: (columns: String, decode: (ResultRow) throws -> Void)] = [
            "meta": ("began", { try $0.check(integers: 0) }),
            "removed_identities": (
                "issuer, subject, removed",
                { row in
                    try row.check(texts: 0, 1)
                    try row.check(integers: 2)
                }
            ),
            "revoked_tokens": (
                "digest, ends",
                { row in
                    try row.check(texts: 0)
                    try row.check(integers: 1)
                }
            ),
            "accounts": (
                "id, name, disabled, created",
                { row in
                    try row.check(texts: 0)
                    if !row.isNull(1) { try row.check(texts: 1) }
                    try row.check(integers: 2, 3)
                }
            ),
            "identities": (
                "issuer, subject, account, added, linker",
                { row in
                    try row.check(texts: 0, 1, 2)
                    try row.check(integers: 3)
                    _ = try row.optional(4, row.endpoint)
                }
            ),
        ]
        checks["quotas"] = (
            "account, name, value",
            { row in
                try row.check(texts: 0, 1)
                guard try row.integer(2) > 0 else { throw ColumnError() }
            }
        )
        checks["endpoints"] = (SQLTransaction<Self>.endpointColumns, { try transaction.endpoint($0).check() })
        checks["registrations"] = (
            "app, version, registration, endpoint",
            { row in try transaction.registration(row, 0).check(of: try row.endpoint(3)) }
        )
        checks["vouchers"] = (
            "account, endpoint, giver, voucher",
            { row in
                let voucher = try Unverified<Voucher>(decoding: try row.bytes(3)).payload
                guard try voucher.account == row.text(0), try voucher.endpoint == row.endpoint(1), try voucher.voucher == row.endpoint(2)
                else { throw ColumnError() }
            }
        )
        checks["pushes"] = (SQLTransaction<Self>.pushColumns, { _ = try transaction.push($0) })
        checks["revoked"] = (SQLTransaction<Self>.revocationColumns, { try transaction.revocation($0).check() })
        checks["commands"] = (
            "\(SQLTransaction<Self>.descriptorColumns), state, cancel_requested, ended, outcome, receipt, reply, account, deadline, blob",
            { row in
                try transaction.state(row).check(of: try transaction.descriptor(row), blob: try row.optional(17, row.bytes))
                try row.check(texts: 15)
                try row.check(integers: 16)
            }
        )
        checks["app_identities"] = (
            "id, proof, verified, created",
            { row in
                let id = try row.text(0)
                guard id == AppIdentity.defaultID || AppIdentity.domain(id) == id else { throw ColumnError() }
                try row.check(texts: 1)
                _ = try row.optional(2, row.integer)
                try row.check(integers: 3)
            }
        )
        checks["apps"] = (
            "app, platform, identity, proven",
            { row in
                try row.check(texts: 0, 2)
                try row.check(integers: 3)
                guard AppIdentity.App.Platform(rawValue: try row.text(1)) != nil else { throw ColumnError() }
            }
        )
        checks["push_credentials"] = (
            "id, sealed, identity, type, label, created",
            { row in
                guard let bytes = key.open(try row.bytes(1), label: "push credential \(try row.text(0))") else { throw ColumnError() }
                let credential = try JSONDecoder().decode(StoredCredential.self, from: Data(bytes))
                guard try credential.type == row.text(3) else { throw ColumnError() }
                try row.check(texts: 2, 4)
                try row.check(integers: 5)
            }
        )
        var all = RelayTables.all.compactMap { table in checks[table.name].map { TableCheck(table, $0.columns, $0.decode) } }
        if Self.isShared { all += [Self.requestCheck, Self.tokenCheck(key)] }
        return all
    }

    private static func tokenCheck(_ key: RelayKey) -> TableCheck<ResultRow> {
        TableCheck(SQLTable("push_token", key: "credential"), "credential, version, sealed") { row in
            try row.check(integers: 1)
            guard key.open(try row.bytes(2), label: PushTokenRow.label(of: try row.text(0))) != nil else { throw ColumnError() }
        }
    }

    private static var requestCheck: TableCheck<ResultRow> {
        TableCheck(SQLTable("account_request", key: "id"), "account, body, made, answer, answered") { row in
            try row.check(texts: 0)
            _ = try JSONDecoder().decode(AccountRequest.self, from: Data(try row.text(1).utf8))
            try row.check(integers: 2)
            if let answer = try row.optional(3, row.text) {
                _ = try JSONDecoder().decode(AccountAnswer.self, from: Data(answer.utf8))
                try row.check(integers: 4)
            }
        }
    }
}

extension EndpointRow {
    fileprivate func check() throws {
        let record = try Signed<EndpointRecord>(verifying: record).payload
        guard record.endpointID == id, record.systemID == system, record.account == account.rawValue, record.version == version,
            record.identityKey.jwkThumbprint == keyThumbprint
        else { throw ColumnError() }
    }
}

extension RegistrationRow {
    fileprivate func check(of endpoint: EndpointID) throws {
        let payload = try Unverified<AppRegistration>(decoding: registration).payload
        guard payload.endpoint == endpoint, payload.appID == appID, payload.version == version else { throw ColumnError() }
    }
}

extension RevocationRow {
    fileprivate func check() throws {
        guard let statement else { return }
        let revocation = try Unverified<Revocation>(decoding: statement.revocation).payload
        guard revocation.endpoint == endpoint, revocation.revoker == statement.revoker, revocation.account == account.rawValue
        else { throw ColumnError() }
    }
}

extension MailboxCommand.State {
    fileprivate func check(of descriptor: CommandDescriptor, blob: [UInt8]?) throws {
        guard case .final(let final, _) = self else {
            guard let blob, try SealedCommand(decoding: blob).digest == descriptor.digest else { throw ColumnError() }
            return
        }
        guard let bytes = final.receipt else { return }
        let receipt = try Unverified<CommandReceipt>(decoding: bytes).payload
        guard receipt.sender == descriptor.lane.sender, receipt.target == descriptor.lane.target,
            receipt.reply == final.reply.map({ Digest256(hashing: $0) })
        else { throw ColumnError() }
    }
}
