// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Whom this endpoint knows.
extension JournalTransaction {
    /// An endpoint that was seen and confirmed, with its newest record, whose version must not go back.
    package struct Pin: Hashable, Sendable {
        package var endpoint: EndpointID
        /// The signed record as it came.
        package var record: [UInt8]
        /// Milliseconds since 1970, by the own clock.
        package var pinned: Int64

        package init(endpoint: EndpointID, record: [UInt8], pinned: Int64) {
            self.endpoint = endpoint
            self.record = record
            self.pinned = pinned
        }
    }

    /// Pins an endpoint, or stores the newer record of one that is pinned; the time of its pinning stays.
    /// - Throws: `LimitExceeded` if there are as many as an account may have.
    package func store(_ pin: Pin) throws {
        let others = try Int.fetchOne(statement("SELECT count(*) FROM pins WHERE endpoint <> ?"), arguments: [pin.endpoint.column])
        try journal.limits.check(.endpointsPerAccount, (others ?? 0) + 1)
        try run(
            """
            INSERT INTO pins (endpoint, record, pinned) VALUES (?, ?, ?)
            ON CONFLICT (endpoint) DO UPDATE SET record = excluded.record
            """,
            [pin.endpoint.column, Data(pin.record), pin.pinned]
        )
    }

    /// Forgets an endpoint that is gone from the account.
    package func unpin(_ endpoint: EndpointID) throws {
        try run("DELETE FROM pins WHERE endpoint = ?", [endpoint.column])
    }

    package func pins() throws -> [Pin] {
        try Row.fetchAll(statement("SELECT * FROM pins ORDER BY endpoint")).map { row in
            Pin(endpoint: try row.endpoint("endpoint"), record: try row.bytes("record"), pinned: try row.required("pinned"))
        }
    }

    /// This endpoint vouches for a pinned one, and the relay has to be told.
    package func addVoucher(for endpoint: EndpointID) throws {
        try run("INSERT OR IGNORE INTO vouchers (endpoint) VALUES (?)", [endpoint.column])
    }

    /// The relay was told.
    package func removeVoucher(for endpoint: EndpointID) throws {
        try run("DELETE FROM vouchers WHERE endpoint = ?", [endpoint.column])
    }

    /// Those that the relay has to be told of.
    package func vouchers() throws -> [EndpointID] {
        try Row.fetchAll(statement("SELECT endpoint FROM vouchers ORDER BY endpoint")).map { try $0.endpoint("endpoint") }
    }
}
