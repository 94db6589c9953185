// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage

// The own endpoint.
extension JournalTransaction {
    /// The stored data of the own endpoint.
    package struct OwnEndpoint: Hashable, Sendable {
        /// The account's id at the relay; `nil` before the relay has stated it.
        package var account: String?
        /// The newest signed record.
        package var record: [UInt8]?
        /// Whether listed endpoints are no longer pinned automatically: the first enumeration is complete, or the endpoint joined by
        /// another endpoint's link.
        package var hasEnumerated: Bool
        /// The endpoint whose link this one used to join; `nil` after its record has arrived.
        package var inviter: EndpointID?

        package init(account: String?, record: [UInt8]?, hasEnumerated: Bool, inviter: EndpointID? = nil) {
            self.account = account
            self.record = record
            self.hasEnumerated = hasEnumerated
            self.inviter = inviter
        }
    }

    package func ownEndpoint() throws -> OwnEndpoint {
        guard let row = try Row.fetchOne(statement("SELECT account, record, enumerated, inviter FROM meta")) else { throw ColumnError() }
        return OwnEndpoint(
            account: try row.value("account"),
            record: try row.optionalBytes("record"),
            hasEnumerated: try row.required("enumerated"),
            inviter: try row.optionalBytes("inviter").map { _ in try row.endpoint("inviter") }
        )
    }

    /// When this journal took the place of one that was lost: milliseconds since 1970, by the local clock.
    package func replaced() throws -> Int64? {
        try Row.fetchOne(statement("SELECT replaced FROM meta"))?.value("replaced")
    }

    package func setAccount(_ account: String) throws {
        try run("UPDATE meta SET account = ?", [account])
    }

    package func setRecord(_ record: [UInt8]) throws {
        try run("UPDATE meta SET record = ?", [Data(record)])
    }

    /// The URLs that the relay named for reconnecting, the preferred ones first.
    package func relayURLs() throws -> [String] {
        let text: String? = try Row.fetchOne(statement("SELECT relay_urls FROM meta"))?.value("relay_urls")
        return (text ?? "").utf8.split(separator: UInt8(ascii: "\n")).compactMap { String($0) }
    }

    package func setRelayURLs(_ urls: [String]) throws {
        try run("UPDATE meta SET relay_urls = ?", [urls.joined(separator: "\n")])
    }

    /// The registration for notifications; `nil` if there is none, or a newer version has stored it.
    package func notification() throws -> StoredNotification? {
        let text: String? = try Row.fetchOne(statement("SELECT notification FROM meta"))?.value("notification")
        return text.flatMap { try? StoredNotification(json: JSONValue(parsing: Array($0.utf8))) }
    }

    package func setNotification(_ notification: StoredNotification) throws {
        var json = JSONWriter()
        notification.write(to: &json)
        try run("UPDATE meta SET notification = ?", [String(decoding: json.bytes, as: UTF8.self)])
    }

    /// The last signed registration of an app.
    package func registration(of appID: String) throws -> [UInt8]? {
        try Row.fetchOne(statement("SELECT registration FROM registrations WHERE app = ?"), arguments: .bound(appID))?.bytes("registration")
    }

    /// The last signed registrations of all apps, whichever process publishes them.
    package func registrations() throws -> [String: [UInt8]] {
        try Row.fetchAll(statement("SELECT app, registration FROM registrations")).reduce(into: [:]) { all, row in
            all[try row.required("app", as: String.self)] = try row.bytes("registration")
        }
    }

    package func setRegistration(_ registration: [UInt8], of appID: String) throws {
        try run(
            "INSERT OR REPLACE INTO registrations (app, registration) VALUES (?, ?)",
            [appID, Data(registration)]
        )
    }

    package func removeRegistration(of appID: String) throws {
        try run("DELETE FROM registrations WHERE app = ?", [appID])
    }

    /// Records that this endpoint joins by another endpoint's link. At first only that endpoint is known.
    package func setJoined(by inviter: EndpointID?) throws {
        try run("UPDATE meta SET enumerated = 1, inviter = ?", [inviter?.column])
    }

    /// Deletes the inviter: its record has arrived, or this endpoint joined again without an inviter.
    package func forgetInviter() throws {
        try run("UPDATE meta SET inviter = NULL")
    }

    package func setEnumerated() throws {
        try run("UPDATE meta SET enumerated = 1")
    }

    /// When the relay has last listed all endpoints: milliseconds since 1970, by its time.
    package func listed() throws -> Int64? {
        try Row.fetchOne(statement("SELECT listed FROM meta"))?.value("listed")
    }

    package func setListed(_ time: Int64) throws {
        try run("UPDATE meta SET listed = ?", [time])
    }
}

/// The registration for notifications as it is stored.
package struct StoredNotification: JSONObjectCodable, Hashable, Sendable {
    package var appID: String
    package var displayName: String
    package var channel: PushRegistration
    package var showsNames: Bool

    package init(appID: String, displayName: String, channel: PushRegistration, showsNames: Bool = false) {
        self.appID = appID
        self.displayName = displayName
        self.channel = channel
        self.showsNames = showsNames
    }

    package init(json: JSONValue) throws(JSONError) {
        self.appID = try json.member("appID")
        self.displayName = try json.member("displayName")
        self.channel = try json.member("channel")
        self.showsNames = try json.optional("showsNames") ?? false
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("appID", appID)
        json.member("displayName", displayName)
        json.member("channel", channel)
        if showsNames { json.member("showsNames", true) }
    }
}
