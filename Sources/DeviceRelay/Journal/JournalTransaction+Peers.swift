// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
package import RelayProtocol
import RelayStorage

// Pins, revocations and vouchers.
extension JournalTransaction {
    /// A pinned endpoint, with its newest record. The record's version must not decrease.
    package struct Pin: Hashable, Sendable {
        package var endpoint: EndpointID
        /// The signed record as it was received.
        package var record: [UInt8]
        /// When the endpoint was pinned: milliseconds since 1970, by the local clock.
        package var pinned: Int64
        package var knowledge: Voucher.VerificationLevel

        package init(endpoint: EndpointID, record: [UInt8], pinned: Int64, knowledge: Voucher.VerificationLevel = .verified) {
            self.endpoint = endpoint
            self.record = record
            self.pinned = pinned
            self.knowledge = knowledge
        }
    }

    /// Pins an endpoint, or stores the newer record of a pinned endpoint. The time of pinning stays, and a stored higher level stays,
    /// because another process may have stored it. A revoked endpoint is not pinned again.
    /// - Throws: `LimitExceeded` if the number of pins would exceed the size of a directory.
    package func store(_ pin: Pin) throws {
        guard try !isRevoked(pin.endpoint) else { return }
        let others = try Int.fetchOne(statement("SELECT count(*) FROM pins WHERE endpoint <> ?"), arguments: .bound(pin.endpoint.column))
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

    /// Stores the newer record of a pinned endpoint. Without a pin it has no effect.
    package func renew(_ pin: Pin) throws {
        try run("UPDATE pins SET record = ? WHERE endpoint = ?", [Data(pin.record), pin.endpoint.column])
    }

    /// Deletes the pin of an endpoint.
    /// - Returns: Whether there was one.
    package func removePin(of endpoint: EndpointID) throws -> Bool {
        try run("DELETE FROM pins WHERE endpoint = ?", [endpoint.column])
        return database.changesCount > 0
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

    /// Stores the signed registrations of a pinned endpoint, in place of the earlier ones. Without a pin it has no effect.
    package func storeRegistrations(_ registrations: [[UInt8]], of endpoint: EndpointID) throws {
        try run("DELETE FROM peer_registrations WHERE endpoint = ?", [endpoint.column])
        for (position, registration) in registrations.enumerated() {
            try run(
                "INSERT INTO peer_registrations SELECT endpoint, ?, ? FROM pins WHERE endpoint = ?",
                [position, Data(registration), endpoint.column]
            )
        }
    }

    /// The signed registrations of a pinned endpoint.
    package func registrations(of endpoint: EndpointID) throws -> [[UInt8]] {
        let select = "SELECT registration FROM peer_registrations WHERE endpoint = ? ORDER BY position"
        return try Row.fetchAll(statement(select), arguments: .bound(endpoint.column)).map { try $0.bytes("registration") }
    }

    // MARK: Approved endpoints

    /// A stored endpoint that is known by the word of another one or by its device.
    package struct Approved: Hashable, Sendable {
        package var endpoint: EndpointID
        /// The signed record as it was received.
        package var record: [UInt8]
        /// The signed vouchers for it, also those of endpoints that are not known.
        package var vouchers: [[UInt8]]
        /// The signed registrations of its apps.
        package var registrations: [[UInt8]]

        package init(endpoint: EndpointID, record: [UInt8], vouchers: [[UInt8]], registrations: [[UInt8]]) {
            self.endpoint = endpoint
            self.record = record
            self.vouchers = vouchers
            self.registrations = registrations
        }
    }

    /// Stores an endpoint that is known and not pinned, in place of what was stored of it; with `nil` it only deletes that.
    package func storeApproved(_ approved: Approved?, of endpoint: EndpointID) throws {
        try run("DELETE FROM approved WHERE endpoint = ?", [endpoint.column])
        guard let approved, try !isRevoked(endpoint) else { return }
        try run("INSERT INTO approved VALUES (?, ?)", [endpoint.column, Data(approved.record)])
        for (kind, parts) in [("voucher", approved.vouchers), ("registration", approved.registrations)] {
            for (position, part) in parts.enumerated() {
                try run("INSERT INTO approved_parts VALUES (?, ?, ?, ?)", [endpoint.column, kind, position, Data(part)])
            }
        }
    }

    package func approved() throws -> [Approved] {
        func parts(_ kind: String, of endpoint: EndpointID) throws -> [[UInt8]] {
            let select = "SELECT part FROM approved_parts WHERE endpoint = ? AND kind = ? ORDER BY position"
            return try Row.fetchAll(statement(select), arguments: .bound(endpoint.column, kind)).map { try $0.bytes("part") }
        }
        return try Row.fetchAll(statement("SELECT * FROM approved ORDER BY endpoint")).map { row in
            let endpoint = try row.endpoint("endpoint")
            return Approved(
                endpoint: endpoint,
                record: try row.bytes("record"),
                vouchers: try parts("voucher", of: endpoint),
                registrations: try parts("registration", of: endpoint)
            )
        }
    }

    /// Deletes all pins and vouchers, because this endpoint belongs to another account now. Revocations stay.
    package func forgetPeers() throws {
        try run("DELETE FROM pins")
        try run("DELETE FROM vouchers")
        try run("DELETE FROM shut_out")
        try run("DELETE FROM approved")
    }

    // MARK: Revocations

    /// The maximum number of stored revocations: 1,024. Above it none is stored.
    package static let maximumRevocations = PeerBook.maximumRevocations

    /// Stores the signed revocation of an endpoint, and deletes its pin. A second revocation has no effect.
    /// - Returns: Whether it is stored. There is a maximum number.
    @discardableResult
    package func storeRevocation(of endpoint: EndpointID, _ revocation: [UInt8], isUnsent: Bool) throws -> Bool {
        let count = try Int.fetchOne(statement("SELECT count(*) FROM revocations")) ?? 0
        try run("DELETE FROM pins WHERE endpoint = ?", [endpoint.column])
        try run("DELETE FROM vouchers WHERE endpoint = ?", [endpoint.column])
        try run("DELETE FROM shut_out WHERE endpoint = ?", [endpoint.column])
        try run("DELETE FROM approved WHERE endpoint = ?", [endpoint.column])
        // Revocations that are made here have twice the limit, so that those of other endpoints cannot fill it.
        guard count < (isUnsent ? 2 : 1) * Self.maximumRevocations else { return try isRevoked(endpoint) }
        try run(
            "INSERT OR IGNORE INTO revocations (endpoint, revocation, unsent) VALUES (?, ?, ?)",
            [endpoint.column, Data(revocation), isUnsent]
        )
        return true
    }

    private func isRevoked(_ endpoint: EndpointID) throws -> Bool {
        try Row.fetchOne(statement("SELECT 1 FROM revocations WHERE endpoint = ?"), arguments: .bound(endpoint.column)) != nil
    }

    /// Records that the relay has answered, so the revocation is not sent again.
    package func setRevocationSent(_ endpoint: EndpointID) throws {
        try run("UPDATE revocations SET unsent = 0 WHERE endpoint = ?", [endpoint.column])
    }

    /// All endpoints with a stored revocation.
    package func revoked() throws -> Set<EndpointID> {
        Set(try Row.fetchAll(statement("SELECT endpoint FROM revocations")).map { try $0.endpoint("endpoint") })
    }

    /// The signed revocations, by endpoint.
    package func revocations() throws -> [[UInt8]] {
        try Row.fetchAll(statement("SELECT revocation FROM revocations ORDER BY endpoint")).map { try $0.bytes("revocation") }
    }

    /// The revocations that must be sent to the relay.
    package func unsentRevocations() throws -> [(endpoint: EndpointID, revocation: [UInt8])] {
        try Row.fetchAll(statement("SELECT endpoint, revocation FROM revocations WHERE unsent = 1 ORDER BY endpoint")).map {
            (try $0.endpoint("endpoint"), try $0.bytes("revocation"))
        }
    }

    /// Stores that the relay has revoked an endpoint, and deletes its address. Above the maximum of revocations none is stored.
    package func storeShutOut(_ endpoint: EndpointID, at time: Int64) throws {
        try removeAddress(of: endpoint)
        try run(
            "INSERT OR IGNORE INTO shut_out (endpoint, time) SELECT ?, ? WHERE (SELECT count(*) FROM shut_out) < ?",
            [endpoint.column, time, Self.maximumRevocations]
        )
    }

    /// The relay lists the endpoint again.
    package func removeShutOut(_ endpoint: EndpointID) throws {
        try run("DELETE FROM shut_out WHERE endpoint = ?", [endpoint.column])
    }

    /// The endpoints that the relay has revoked and not listed since.
    package func shutOut() throws -> Set<EndpointID> {
        Set(try Row.fetchAll(statement("SELECT endpoint FROM shut_out")).map { try $0.endpoint("endpoint") })
    }

    // MARK: Vouchers

    /// Records that a voucher for an endpoint must be sent to the relay.
    package func addVoucher(for endpoint: EndpointID) throws {
        try run("INSERT OR IGNORE INTO vouchers (endpoint) VALUES (?)", [endpoint.column])
    }

    /// Records that the relay has answered the voucher.
    package func removeVoucher(for endpoint: EndpointID) throws {
        try run("DELETE FROM vouchers WHERE endpoint = ?", [endpoint.column])
    }

    /// The endpoints whose vouchers must be sent to the relay.
    package func vouchers() throws -> [EndpointID] {
        try Row.fetchAll(statement("SELECT endpoint FROM vouchers ORDER BY endpoint")).map { try $0.endpoint("endpoint") }
    }
}
