// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayStorage

/// The endpoints' statements: registrations of apps, and vouchers.
extension SQLTransaction {
    func registrations(of endpoint: EndpointID) throws -> [RegistrationRow] {
        try database.rows(
            "SELECT app, version, registration FROM registrations WHERE endpoint = ? ORDER BY app",
            [endpoint.column]
        ) { try registration($0, 0) }
    }

    /// Reads three columns, app, version and registration.
    func registration(_ row: Database.ResultRow, _ column: Int) throws -> RegistrationRow {
        RegistrationRow(appID: try row.text(column), version: try row.number(column + 1), registration: try row.bytes(column + 2))
    }

    func put(_ registration: RegistrationRow, of endpoint: EndpointID, in account: AccountID) throws {
        try database.execute(
            """
            INSERT INTO registrations (endpoint, app, version, registration) VALUES (?, ?, ?, ?)
            ON CONFLICT (endpoint, app) DO UPDATE SET version = excluded.version, registration = excluded.registration
            """,
            [endpoint.column, registration.appID, NumberColumn.encode(registration.version), Data(registration.registration)]
        )
    }

    func removeRegistration(_ appID: String, of endpoint: EndpointID, in account: AccountID) throws {
        try database.execute("DELETE FROM registrations WHERE endpoint = ? AND app = ?", [endpoint.column, appID])
    }

    func registrations(mentioning text: String) throws -> [(account: AccountID, endpoint: EndpointID, row: RegistrationRow)] {
        try database.rows(
            """
            SELECT account, endpoint, app, registrations.version, registration
            FROM registrations JOIN endpoints ON endpoints.id = registrations.endpoint WHERE \(Database.contains("registration"))
            """,
            [Data(text.utf8)]
        ) { (AccountID(try $0.text(0)), try $0.endpoint(1), try registration($0, 2)) }
    }

    func vouchers(for endpoint: EndpointID) throws -> [[UInt8]] {
        try database.rows("SELECT voucher FROM vouchers WHERE endpoint = ? ORDER BY giver", [endpoint.column]) { try $0.bytes(0) }
    }

    func vouchers(by endpoint: EndpointID, of account: AccountID) throws -> [[UInt8]] {
        try database.rows(
            "SELECT voucher FROM vouchers WHERE account = ? AND giver = ? ORDER BY endpoint",
            [account.rawValue, endpoint.column]
        ) { try $0.bytes(0) }
    }

    func putVoucher(_ voucher: [UInt8], for endpoint: EndpointID, by other: EndpointID, of account: AccountID) throws {
        try database.execute(
            """
            INSERT INTO vouchers (account, endpoint, giver, voucher) VALUES (?, ?, ?, ?)
            ON CONFLICT (endpoint, giver) DO UPDATE SET voucher = excluded.voucher
            """,
            [account.rawValue, endpoint.column, other.column, Data(voucher)]
        )
    }
}
