// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
package import RelayProtocol
import RelayStorage

// Where pinned endpoints were last reached directly. These are hints: a key proves who is there.
extension JournalTransaction {
    /// The place where an endpoint was reached.
    package struct PeerAddress: Hashable, Sendable {
        package var endpoint: EndpointID
        package var place: AddressHints.Place
        /// Milliseconds since 1970, by the local clock.
        package var time: Int64

        package init(endpoint: EndpointID, place: AddressHints.Place, time: Int64) {
            (self.endpoint, self.place, self.time) = (endpoint, place, time)
        }
    }

    /// Stores an address in place of the endpoint's earlier one. Without a pin, and for an endpoint that the relay has revoked, it has no
    /// effect. So there are as many as pins at most: 1,024.
    package func store(_ address: PeerAddress) throws {
        try run(
            """
            INSERT OR REPLACE INTO peer_addresses (endpoint, address, port, time) SELECT endpoint, ?, ?, ? FROM pins
            WHERE endpoint = ? AND endpoint NOT IN (SELECT endpoint FROM shut_out)
            """,
            [Data(address.place.address.bytes), Int(address.place.port), address.time, address.endpoint.column]
        )
    }

    /// Deletes the address of an endpoint.
    package func removeAddress(of endpoint: EndpointID) throws {
        try run("DELETE FROM peer_addresses WHERE endpoint = ?", [endpoint.column])
    }

    /// The stored addresses.
    /// - Parameter since: Older ones count no more.
    package func peerAddresses(since: Int64) throws -> [PeerAddress] {
        let select = "SELECT * FROM peer_addresses WHERE time > ? ORDER BY endpoint"
        return try Row.fetchAll(statement(select), arguments: .bound(since)).map { row in
            guard let address = IPAddress(bytes: try row.bytes("address")), let port = UInt16(exactly: try row.required("port") as Int64)
            else {
                throw ColumnError()
            }
            return PeerAddress(
                endpoint: try row.endpoint("endpoint"),
                place: .init(address: address, port: port),
                time: try row.required("time")
            )
        }
    }
}
