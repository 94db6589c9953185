// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
package import RelayProtocol
import RelayStorage

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
        package var knowledge: Voucher.VerificationLevel

        package init(endpoint: EndpointID, record: [UInt8], pinned: Int64, knowledge: Voucher.VerificationLevel = .verified) {
            self.endpoint = endpoint
            self.record = record
            self.pinned = pinned
            self.knowledge = knowledge
        }
    }

    /// Pins an endpoint, or stores the newer record of one that is pinned; the time of its pinning stays, and so does the better knowledge, which
    /// another process may have stored. An endpoint that is revoked is not pinned again.
    /// - Throws: `LimitExceeded` if there are as many as a directory shows.
    package func store(_ pin: Pin) throws {
        guard try !isRevoked(pin.endpoint) else { return }
        let others = try Int.fetchOne(statement("SELECT count(*) FROM pins WHERE endpoint <> ?"), arguments: [pin.endpoint.column])
        let requested = (others ?? 0) + 1
        guard requested <= DeviceDirectory.maximumEndpoints else {
            throw LimitExceeded(limit: .endpointsPerAccount, allowed: DeviceDirectory.maximumEndpoints, requested: requested)
        }
        try run(
            """
            INSERT INTO pins (endpoint, record, pinned, knowledge) VALUES (?, ?, ?, ?)
            ON CONFLICT (endpoint) DO UPDATE SET record = excluded.record,
            knowledge = CASE WHEN knowledge = 'verified' THEN knowledge ELSE excluded.knowledge END
            """,
            [pin.endpoint.column, Data(pin.record), pin.pinned, pin.knowledge.rawValue]
        )
    }

    package func pins() throws -> [Pin] {
        try Row.fetchAll(statement("SELECT * FROM pins ORDER BY endpoint")).map { row in
            guard let knowledge = Voucher.VerificationLevel(rawValue: try row.required("knowledge")) else { throw ColumnError() }
            return Pin(
                endpoint: try row.endpoint("endpoint"),
                record: try row.bytes("record"),
                pinned: try row.required("pinned"),
                knowledge: knowledge
            )
        }
    }

    /// This endpoint belongs to another account now: what was known of the endpoints of the old one is forgotten. Revocations stay.
    package func forgetPeers() throws {
        try run("DELETE FROM pins")
        try run("DELETE FROM vouchers")
    }

    // MARK: Revocations

    /// As many are kept: 1,024. Beyond that none is stored.
    package static let maximumRevocations = PeerBook.maximumRevocations

    /// Stores the signed revocation of an endpoint, and forgets its pin. A second one changes nothing.
    package func storeRevocation(of endpoint: EndpointID, _ revocation: [UInt8], isUntold: Bool) throws {
        let count = try Int.fetchOne(statement("SELECT count(*) FROM revocations")) ?? 0
        try run("DELETE FROM pins WHERE endpoint = ?", [endpoint.column])
        try run("DELETE FROM vouchers WHERE endpoint = ?", [endpoint.column])
        // What other endpoints revoke leaves room for what a person revokes here.
        guard count < (isUntold ? 2 : 1) * Self.maximumRevocations else { return }
        try run(
            "INSERT OR IGNORE INTO revocations (endpoint, revocation, untold) VALUES (?, ?, ?)",
            [endpoint.column, Data(revocation), isUntold]
        )
    }

    private func isRevoked(_ endpoint: EndpointID) throws -> Bool {
        try Row.fetchOne(statement("SELECT 1 FROM revocations WHERE endpoint = ?"), arguments: [endpoint.column]) != nil
    }

    /// The relay has answered: it need not be told of the revocation again.
    package func setTold(_ endpoint: EndpointID) throws {
        try run("UPDATE revocations SET untold = 0 WHERE endpoint = ?", [endpoint.column])
    }

    /// All endpoints of which a revocation is stored.
    package func revoked() throws -> Set<EndpointID> {
        Set(try Row.fetchAll(statement("SELECT endpoint FROM revocations")).map { try $0.endpoint("endpoint") })
    }

    /// The revocations that the relay has to be told of.
    package func untoldRevocations() throws -> [(endpoint: EndpointID, revocation: [UInt8])] {
        try Row.fetchAll(statement("SELECT endpoint, revocation FROM revocations WHERE untold = 1 ORDER BY endpoint")).map {
            (try $0.endpoint("endpoint"), try $0.bytes("revocation"))
        }
    }

    // MARK: Vouchers

    /// This endpoint vouches for another one, and the relay has to be told.
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
