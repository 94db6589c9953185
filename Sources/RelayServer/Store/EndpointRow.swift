// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The stored state of an endpoint.
package struct EndpointRow: Codable, Hashable, Sendable {
    package var id: EndpointID
    package var account: AccountID
    package var version: UInt64
    /// The signed record.
    package var record: [UInt8]
    /// Whether it ever had a host channel.
    package var hasHosted: Bool
    /// How its last host channel ended, unless it is open or the relay stopped first.
    package var departure: Departure?
    /// The device of the record.
    package var system: SystemID
    /// The JWK thumbprint of the identity key, by which an issuer knows the endpoint.
    package var keyThumbprint: String
    /// Whether it may revoke other endpoints and invite: it was the account's first endpoint, belongs to the device of an established
    /// one, or has a voucher from one.
    package var isEstablished: Bool
    /// Whether it is established without any other one: it was the account's first endpoint, or one that let it in has left.
    package var isRoot: Bool
    /// How it joined the account.
    package var joining: Joining
    /// The login of the token in its last hello, if the token names one.
    package var login: Login?

    package struct Departure: Codable, Hashable, Sendable {
        package var reason: Presence.Reason
        /// Milliseconds since 1970.
        package var time: Int64

        package init(reason: Presence.Reason, time: Int64) {
            self.reason = reason
            self.time = time
        }
    }

    package init(
        id: EndpointID,
        account: AccountID,
        version: UInt64,
        record: [UInt8],
        hasHosted: Bool = false,
        departure: Departure? = nil,
        system: SystemID,
        keyThumbprint: String,
        isEstablished: Bool = false,
        isRoot: Bool = false,
        joining: Joining,
        login: Login? = nil
    ) {
        self.id = id
        self.account = account
        self.version = version
        self.record = record
        self.hasHosted = hasHosted
        self.departure = departure
        self.system = system
        self.keyThumbprint = keyThumbprint
        self.isEstablished = isEstablished
        self.isRoot = isRoot
        self.joining = joining
        self.login = login
    }
}

extension EndpointRow {
    /// Whether the limits for new endpoints apply to it at a target: it is not established, and belongs to another device.
    func isNew(to target: EndpointRow) -> Bool { !isEstablished && system != target.system }
}

extension Presence.Reason: Codable {}

/// The stored state of a revoked endpoint.
package struct RevocationRow: Hashable, Sendable {
    package var endpoint: EndpointID
    package var account: AccountID
    /// The signed statement and its signer; `nil` if the operator revoked the endpoint.
    package var statement: Statement?
    /// Milliseconds since 1970.
    package var time: Int64
    /// Whether it is kept permanently. Otherwise it exists only until the endpoint's logins have ended.
    package var isKept: Bool
    /// Identifies the endpoint's logins.
    package var keyThumbprint: String
    package var login: Login?
    /// Whether the endpoint's logins have ended.
    package var loginsEnded: Bool

    package struct Statement: Hashable, Sendable {
        package var revoker: EndpointID
        package var revocation: [UInt8]

        package init(revoker: EndpointID, revocation: [UInt8]) {
            self.revoker = revoker
            self.revocation = revocation
        }
    }

    package init(of endpoint: EndpointRow, statement: Statement?, time: Int64, isKept: Bool, loginsEnded: Bool) {
        self.init(
            endpoint: endpoint.id,
            account: endpoint.account,
            statement: statement,
            time: time,
            isKept: isKept,
            keyThumbprint: endpoint.keyThumbprint,
            login: endpoint.login,
            loginsEnded: loginsEnded
        )
    }

    init(
        endpoint: EndpointID,
        account: AccountID,
        statement: Statement?,
        time: Int64,
        isKept: Bool,
        keyThumbprint: String,
        login: Login?,
        loginsEnded: Bool
    ) {
        self.endpoint = endpoint
        self.account = account
        self.statement = statement
        self.time = time
        self.isKept = isKept
        self.keyThumbprint = keyThumbprint
        self.login = login
        self.loginsEnded = loginsEnded
    }
}

/// The stored state of a published app.
package struct RegistrationRow: Hashable, Sendable {
    package var appID: String
    package var version: UInt64
    /// The signed registration.
    package var registration: [UInt8]

    package init(appID: String, version: UInt64, registration: [UInt8]) {
        self.appID = appID
        self.version = version
        self.registration = registration
    }
}

/// An endpoint as its account sees it.
package struct DirectoryEntry: Hashable, Sendable {
    package var endpoint: EndpointRow
    package var introduction: Introduction
    /// Ordered by app id.
    package var registrations: [Blob<BlobKinds.AppRegistration>]
}

/// Identifies a command in the whole store.
package struct StoredCommandKey: Hashable, Sendable {
    package var account: AccountID
    package var command: CommandKey

    package init(account: AccountID, command: CommandKey) {
        self.account = account
        self.command = command
    }

    /// A sender hardly ever belongs to two accounts, so hashing the account would add nothing.
    package func hash(into hasher: inout Hasher) { hasher.combine(command) }
}

/// The commands stored in a lane.
package struct LaneUse: Hashable, Sendable {
    package var commands: Int
    /// Their highest number; `nil` if there are none.
    package var highest: UInt64?

    package init(commands: Int = 0, highest: UInt64? = nil) {
        self.commands = commands
        self.highest = highest
    }
}
