// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayServer

#if Postgres
import RelayPostgres
#endif

/// The nodes that share a PostgreSQL database.
package enum Nodes {
    /// The nodes that live, and those that were found dead in the last day, in the order of their starts.
    package static func list(_ configuration: RelayConfiguration) throws -> [NodeState] { try location(configuration).nodes() }

    /// Lets a node give its accounts to others, and take no more.
    package static func drain(_ number: Int, _ configuration: RelayConfiguration) throws {
        guard try location(configuration).drain(number) else {
            throw ConfigurationError("no node with the number \(number) lives: see `relayd node list`")
        }
    }

    /// Lets no node of an older version start any more, once none lives.
    /// - Returns: The version of the schema that nodes need from now on.
    /// Says that the database was restored to an earlier state. No node lives.
    package static func setRestored(_ configuration: RelayConfiguration) throws { try location(configuration).setRestored() }

    package static func finishUpgrade(_ configuration: RelayConfiguration) throws -> Int { try location(configuration).finishUpgrade() }

    #if Postgres
    private static func location(_ configuration: RelayConfiguration) throws(ConfigurationError) -> PostgresLocation {
        guard case .postgres(let uri) = configuration.store else {
            throw ConfigurationError("only a relay with a PostgreSQL store has nodes: name it with --store postgres://…, or RELAYD_STORE")
        }
        return try PostgresLocation(uri)
    }
    #else
    private struct Location {
        func nodes() -> [NodeState] { [] }
        func drain(_ number: Int) -> Bool { false }
        func finishUpgrade() -> Int { 0 }
        func setRestored() {}
    }

    private static func location(_ configuration: RelayConfiguration) throws(ConfigurationError) -> Location {
        throw .withoutPostgres
    }
    #endif
}

extension ConfigurationError {
    static var withoutPostgres: ConfigurationError {
        ConfigurationError("store: this build has no PostgreSQL; build it with the package trait Postgres")
    }
}
