// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

/// The endpoints' statements: registrations of apps, and vouchers.
extension SQLiteTransaction {
    func registrations(of endpoint: EndpointID) throws -> [RegistrationRow] {
        try Array(
            Row.fetchCursor(
                statement("SELECT app, version, registration FROM registrations WHERE endpoint = ? ORDER BY app"),
                arguments: .bound(endpoint.column)
            ).map { RegistrationRow(appID: $0[0], version: NumberColumn.decode($0[1]), registration: try $0.bytes(at: 2)) }
        )
    }

    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws {
        try run(
            """
            INSERT INTO registrations (endpoint, app, version, registration) VALUES (?, ?, ?, ?)
            ON CONFLICT (endpoint, app) DO UPDATE SET version = excluded.version, registration = excluded.registration
            """,
            [endpoint.column, registration.appID, NumberColumn.encode(registration.version), Data(registration.registration)]
        )
    }

    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) throws {
        try run("DELETE FROM registrations WHERE endpoint = ? AND app = ?", [endpoint.column, appID])
    }

    func registrations(mentioning text: String) throws -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)] {
        let rows = try Row.fetchCursor(
            statement(
                """
                SELECT account, endpoint, app, registrations.version, registration
                FROM registrations JOIN endpoints ON endpoints.id = registrations.endpoint WHERE instr(registration, ?) > 0
                """
            ),
            arguments: .bound(Data(text.utf8))
        )
        var found: [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)] = []
        while let row = try rows.next() {
            let registration = RegistrationRow(appID: row[2], version: NumberColumn.decode(row[3]), registration: try row.bytes(at: 4))
            found.append((AccountID(row[0] as String), try row.endpoint(at: 1), registration))
        }
        return found
    }

    func vouchers(for endpoint: EndpointID) throws -> [[UInt8]] {
        try Data.fetchAll(
            statement("SELECT voucher FROM vouchers WHERE endpoint = ? ORDER BY giver"),
            arguments: .bound(endpoint.column)
        ).map { [UInt8]($0) }
    }

    func vouchers(by endpoint: EndpointID, of account: AccountID) throws -> [[UInt8]] {
        try Data.fetchAll(
            statement("SELECT voucher FROM vouchers WHERE account = ? AND giver = ? ORDER BY endpoint"),
            arguments: .bound(account.rawValue, endpoint.column)
        ).map { [UInt8]($0) }
    }

    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws {
        try run(
            """
            INSERT INTO vouchers (account, endpoint, giver, voucher) VALUES (?, ?, ?, ?)
            ON CONFLICT (endpoint, giver) DO UPDATE SET voucher = excluded.voucher
            """,
            [account.rawValue, endpoint.column, other.column, Data(voucher)]
        )
    }
}
