// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import GRDB
import RelayProtocol
import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// What this endpoint is.
extension JournalTransaction {
    /// What is kept of the own endpoint between launches.
    package struct OwnEndpoint: Hashable, Sendable {
        /// The account's id at the relay; `nil` before the relay has told it.
        package var account: String?
        /// The newest record that was signed.
        package var record: [UInt8]?
        /// Whether nothing is pinned because it is listed: all that was there at first has been seen, or the endpoint joined by another one's link.
        package var hasEnumerated: Bool
        /// The endpoint by whose link this one joined, until its record has been seen.
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

    package func setAccount(_ account: String) throws {
        try run("UPDATE meta SET account = ?", [account])
    }

    package func setRecord(_ record: [UInt8]) throws {
        try run("UPDATE meta SET record = ?", [Data(record)])
    }

    /// Where the relay said to come back to, best first.
    package func relayURLs() throws -> [String] {
        let text: String? = try Row.fetchOne(statement("SELECT relay_urls FROM meta"))?.value("relay_urls")
        return (text ?? "").utf8.split(separator: UInt8(ascii: "\n")).compactMap { String($0) }
    }

    package func setRelayURLs(_ urls: [String]) throws {
        try run("UPDATE meta SET relay_urls = ?", [urls.joined(separator: "\n")])
    }

    /// An app's registration, as it was signed last.
    package func registration(of appID: String) throws -> [UInt8]? {
        try Row.fetchOne(statement("SELECT registration FROM registrations WHERE app = ?"), arguments: [appID])?.bytes("registration")
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

    /// This endpoint joins by another one's link: nothing but that one is known from the start.
    package func setJoined(by inviter: EndpointID?) throws {
        try run("UPDATE meta SET enumerated = 1, inviter = ?", [inviter?.column])
    }

    /// The inviter's record has been seen, or this endpoint joined anew without one.
    package func forgetInviter() throws {
        try run("UPDATE meta SET inviter = NULL")
    }

    package func setEnumerated() throws {
        try run("UPDATE meta SET enumerated = 1")
    }
}
