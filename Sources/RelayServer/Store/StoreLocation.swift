// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Where a relay's databases are.
package enum StoreLocation: Hashable, Sendable, CustomStringConvertible {
    /// SQLite files in the data directory.
    case dataDirectory
    /// A PostgreSQL database, by its connection URI. See PostgreSQL's manual, section "Connection Strings".
    case postgres(String)

    /// Parses `sqlite` or a PostgreSQL URI.
    package init(_ text: String) throws(ConfigurationError) {
        if text == "sqlite" {
            self = .dataDirectory
        } else if text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") {
            self = .postgres(text)
        } else {
            throw ConfigurationError("store: '\(text)' is neither sqlite nor a URI such as postgres://relay@db.example/relay")
        }
    }

    package var description: String {
        switch self {
        case .dataDirectory: "sqlite"
        case .postgres(let uri): uri
        }
    }
}
