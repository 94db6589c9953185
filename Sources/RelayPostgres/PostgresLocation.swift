// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import CPostgres
import Foundation
package import RelayIssuer
package import RelayProtocol
package import RelayServer
import RelayStorage

/// A PostgreSQL database of a relay, by its connection URI.
package struct PostgresLocation: Sendable {
    /// As in libpq's manual, section "Parameter Key Words".
    package let parameters: [(name: String, value: String)]

    /// Parses a URI.
    package init(_ uri: String) throws(ConfigurationError) {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(uri, &message) else {
            // The message may quote a password.
            PQfreemem(message)
            throw ConfigurationError("store: this is not a URI of PostgreSQL, such as postgres://relayd@db.example/relay")
        }
        defer { PQconninfoFree(options) }
        var given: [(name: String, value: String)] = []
        var next = options
        while let keyword = next.pointee.keyword {
            if let value = next.pointee.val { given.append((String(cString: keyword), String(cString: value))) }
            next += 1
        }
        parameters = given
        try check()
    }

    private func value(_ name: String) -> String? { parameters.last { $0.name == name }?.value }

    private func check() throws(ConfigurationError) {
        guard value("password") == nil, value("sslpassword") == nil else {
            throw ConfigurationError(
                "store: a password in the URI is seen by others on this machine; write it into ~/.pgpass, or a file named by passfile="
            )
        }
        for name in ["service", "application_name", "options", "client_encoding", "target_session_attrs"] where value(name) != nil {
            throw ConfigurationError("store: the relay sets \(name) itself, or cannot use it; leave it out")
        }
        guard ProcessInfo.processInfo.environment["PGSERVICE"] == nil else {
            throw ConfigurationError("PGSERVICE is set, and the relay takes its database from --store alone; unset it")
        }
    }

    /// Whether the server is reached without a network.
    private var isLocal: Bool {
        let environment = ProcessInfo.processInfo.environment
        let hosts = (value("hostaddr") ?? environment["PGHOSTADDR"] ?? value("host") ?? environment["PGHOST"] ?? "").split(
            separator: ",",
            omittingEmptySubsequences: false
        )
        return hosts.allSatisfy {
            $0.isEmpty || $0.utf8.first == UInt8(ascii: "/") || Origin(scheme: "http", host: String($0), port: 1).isLoopback
        }
    }

    /// The parameters for connections. Over a network the server proves who it is, unless the URI says otherwise.
    var connected: [(name: String, value: String)] {
        parameters + (isLocal || value("sslmode") != nil ? [] : [("sslmode", "verify-full")])
    }

    /// What an operator should know; `nil` if there is nothing.
    package var warning: String? {
        guard !isLocal, let mode = value("sslmode"), mode != "verify-full" else { return nil }
        return
            "store: with sslmode=\(mode), somebody in the network can pose as the database; use verify-full, and name the authority with sslrootcert="
    }

    /// Connects, creates the tables if there are none, and checks what the server makes of the relay's settings.
    /// - Returns: The relay whose data the database has; `nil` if it is new.
    package func prepare() throws(StoreError) -> RelayID? {
        try Self.translated {
            try PostgresSettings.prepare(connected)
            let connection = try PostgresConnection(PostgresSettings.parameters(connected, of: nil))
            try connection.begin()
            let id = try connection.run("SELECT id FROM relay", []).rows.first.flatMap { try $0.optional(0, $0.text) }
            try connection.commit()
            return id.flatMap { RelayID($0) }
        }
    }

    /// Opens the store for a relay. Call `prepare` first.
    /// - Parameter common: Where a node without its database looks for others; `nil` if it does not.
    package func open(
        for relay: RelayID,
        url: Origin?,
        version: String,
        file: NodeFile? = nil,
        common: CommonURL? = nil,
        metrics: StoreMetrics = StoreMetrics(),
        now: @escaping @Sendable () -> Milliseconds
    ) throws(StoreError) -> PostgresStore {
        try Self.translated {
            let connection = try PostgresConnection(PostgresSettings.parameters(connected, of: nil))
            try connection.begin()
            try connection.send("UPDATE relay SET id = ? WHERE id IS NULL", [.text("\(relay)")], mayWrite: true)
            let found = try connection.run("SELECT id FROM relay", []).rows.first?.text(0)
            try connection.commit()
            guard found == "\(relay)" else { throw StoreError.ofOtherRelay(found ?? "", own: "\(relay)") }
            let store = try PostgresStore(connected, url: url, version: version, file: file, common: common, metrics: metrics, now: now)
            do {
                try store.waitUntilSettled()
            } catch {
                store.close()
                throw error
            }
            return store
        }
    }

    /// Opens the issuer's store in the same database. Call `prepare` first.
    /// - Parameter mayCreate: Whether a missing key file is made.
    package func openIssuer(keyFile: String, mayCreate: Bool) throws(IssuerError) -> (any IssuerStore, MasterKey) {
        let master = try MasterKey(path: keyFile, mayCreate: mayCreate)
        return (try PostgresIssuerStore(connected, master: master), master)
    }

    static func translated<Value>(_ body: () throws -> Value) throws(StoreError) -> Value {
        do {
            return try body()
        } catch let error as PostgresError {
            throw StoreError(error)
        } catch let error as StoreError {
            throw error
        } catch is PostgresSchema.SchemaTooNew {
            throw .tooNew("the PostgreSQL database")
        } catch {
            throw .notADatabase("the PostgreSQL database")
        }
    }
}
#endif
