// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import BuildVersion
import Foundation
package import Logging
package import RelayIssuer
package import RelayProtocol
package import RelayServer
import RelayStorage

#if Postgres
import RelayPostgres
#endif

/// The key and the open databases of a relay.
package struct Stores: Sendable {
    package let key: RelayKey
    package let relay: any RelayStore
    /// `nil` if this node is the only one.
    package let leases: (any AccountLeases)?
    package let issuer: any IssuerStore
    package let master: MasterKey
    /// What the databases contain, for the metrics.
    package let samples: @Sendable () -> [MetricSample]
    private let closeRelay: @Sendable () -> Void

    /// Closes the databases. Repeated calls are allowed.
    package func close() {
        try? issuer.close()
        closeRelay()
    }

    /// Opens the databases, and creates what is missing.
    /// - Parameter lock: Of the data directory.
    package static func open(
        _ configuration: RelayConfiguration,
        holding lock: StoreLock,
        metrics: PrometheusMetrics,
        now: @escaping @Sendable () -> Milliseconds,
        logger: Logger
    ) throws -> Stores {
        try configuration.checkNodeURL()
        let timing = StoreMetrics(factory: metrics)
        switch configuration.store {
        case .dataDirectory: return try sqlite(in: configuration.dataDirectory, lock, timing, logger)
        case .postgres(let uri): return try postgres(uri, configuration, timing, now, logger)
        }
    }

    private static func sqlite(in directory: String, _ lock: StoreLock, _ metrics: StoreMetrics, _ logger: Logger) throws -> Stores {
        let store = try SQLiteStore(holding: lock, metrics: metrics)
        if let dropped = store.droppedCommands {
            logger.warning(
                "the database is an older copy, or lies in a copied directory: treated as restored; commands that were not offered yet wait for their senders",
                metadata: ["commands": "\(dropped)"]
            )
        }
        return try Stores(store, in: directory)
    }

    /// With a store of the relay that is open, and the key and the issuer's store of a directory, which are created if they are missing.
    package init(_ store: SQLiteStore, in directory: String) throws {
        key = try RelayKey.load(in: directory)
        (issuer, master) = try Issuer.openStore(in: directory)
        (relay, leases) = (store, nil)
        samples = { store.samples }
        closeRelay = { store.close() }
    }

    #if Postgres
    private init(_ store: PostgresStore, key: RelayKey, _ issuer: any IssuerStore, _ master: MasterKey) {
        (self.key, self.issuer, self.master) = (key, issuer, master)
        (relay, leases) = (store, store)
        samples = { store.samples }
        closeRelay = { store.close() }
    }

    private static func postgres(
        _ uri: String,
        _ configuration: RelayConfiguration,
        _ metrics: StoreMetrics,
        _ now: @escaping @Sendable () -> Milliseconds,
        _ logger: Logger
    ) throws -> Stores {
        let location = try PostgresLocation(uri)
        if let warning = location.warning { logger.warning("\(warning)") }
        // A database with data has a key, so none is made beside it.
        let isNew = try location.prepare() == nil
        let directory = configuration.dataDirectory
        for name in [RelayKey.fileName, Issuer.keyFileName] where !isNew && !PrivateFile.exists("\(directory)/\(name)") {
            throw ConfigurationError(
                "the database has a relay's data, and \(directory)/\(name) is missing: copy it from another node of that relay"
            )
        }
        let key = try RelayKey.load(in: directory)
        let store = try location.open(
            for: key.id,
            url: configuration.nodeURL,
            version: BuildVersion.text,
            file: NodeFile(in: directory),
            common: CommonURL(configuration.urls, own: configuration.nodeURL),
            metrics: metrics,
            now: now
        )
        let (issuer, master) = try location.openIssuer(keyFile: "\(directory)/\(Issuer.keyFileName)", mayCreate: isNew)
        return Stores(store, key: key, issuer, master)
    }
    #else
    private static func postgres(
        _ uri: String,
        _ configuration: RelayConfiguration,
        _ metrics: StoreMetrics,
        _ now: @escaping @Sendable () -> Milliseconds,
        _ logger: Logger
    ) throws -> Stores {
        throw ConfigurationError.withoutPostgres
    }
    #endif
}
