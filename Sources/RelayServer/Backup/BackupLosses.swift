// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
package import RelayProtocol
import RelayStorage

/// What a relay's database has, and an older copy of it lacks.
package struct BackupLosses: Sendable {
    /// An endpoint that has to join again, or be revoked again.
    package struct Endpoint: Hashable, Sendable {
        package var id: EndpointID
        /// The device's name; empty if it is not known.
        package var device: String
        /// The account's name; empty if it has none.
        package var account: String
    }

    package var joined: [Endpoint] = []
    package var revoked: [Endpoint] = []
    /// The names or ids of accounts.
    package var accounts: [String] = []

    /// - Parameters:
    ///   - newer: The path of the database that is replaced.
    ///   - older: The path of the copy that takes its place.
    /// - Returns: `nil` if one of them cannot be read.
    package init?(of newer: String, without older: String) {
        do {
            let (newer, older) = (try Self.contents(of: newer), try Self.contents(of: older))
            joined = newer.endpoints.filter { older.endpoints[$0.key] == nil }.map(\.value)
            revoked = newer.revoked.filter { older.revoked[$0.key] == nil }.map { older.endpoints[$0.key] ?? $0.value }
            accounts = newer.accounts.filter { older.accounts[$0.key] == nil }.map { $0.value ?? $0.key }.sorted()
            joined.sort { $0.id < $1.id }
            revoked.sort { $0.id < $1.id }
        } catch {
            return nil
        }
    }

    private struct Contents {
        var accounts: [String: String?] = [:]
        var endpoints: [EndpointID: Endpoint] = [:]
        var revoked: [EndpointID: Endpoint] = [:]
    }

    private static func contents(of path: String) throws -> Contents {
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration).read { database in
            var contents = Contents()
            let accounts = try database.rows("SELECT id, name FROM accounts") { (try $0.text(0), try $0.optional(1, $0.text)) }
            for (id, name) in accounts { contents.accounts[id] = .some(name) }
            func endpoint(_ id: EndpointID, _ name: String, of account: String) -> Endpoint {
                Endpoint(id: id, device: name, account: (contents.accounts[account] ?? nil) ?? "")
            }
            let endpoints = try database.rows("SELECT id, account, record FROM endpoints") { row in
                let name = (try? Unverified<EndpointRecord>(decoding: try row.bytes(2)).payload.name) ?? ""
                return endpoint(try row.endpoint(0), name, of: try row.text(1))
            }
            for endpoint in endpoints { contents.endpoints[endpoint.id] = endpoint }
            let revoked = try database.rows("SELECT id, account FROM revoked") { row in
                endpoint(try row.endpoint(0), "", of: try row.text(1))
            }
            for endpoint in revoked { contents.revoked[endpoint.id] = endpoint }
            return contents
        }
    }
}
