// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the operator's commands ask of a relay that runs. One request for each connection.
package struct AdminRequest: Codable, Hashable, Sendable {
    package enum Command: String, Codable, Sendable {
        /// The endpoints of `account`, a name or an id; of all accounts without one.
        case listEndpoints = "endpoint.list"
        /// Revokes `endpoint`, by the operator's word; with those that it let in if `withInvited` is true.
        case revokeEndpoint = "endpoint.revoke"
    }

    package var command: Command
    package var account: String?
    package var endpoint: String?
    package var withInvited: Bool?

    package init(_ command: Command, account: String? = nil, endpoint: String? = nil, withInvited: Bool? = nil) {
        self.command = command
        self.account = account
        self.endpoint = endpoint
        self.withInvited = withInvited
    }
}

/// The relay's answer.
package struct AdminAnswer: Codable, Hashable, Sendable {
    /// Why nothing was done.
    package var error: String?
    package var endpoints: [AdminEndpoint]?
    package var revocation: AdminRevocation?

    package init(error: String? = nil, endpoints: [AdminEndpoint]? = nil, revocation: AdminRevocation? = nil) {
        self.error = error
        self.endpoints = endpoints
        self.revocation = revocation
    }
}

/// What came of a revocation.
package struct AdminRevocation: Codable, Hashable, Sendable {
    /// None of what was revoked before.
    package var revoked: [AdminEndpoint]
    /// The endpoints that the revoked one let in, and that are still there.
    package var letIn: [AdminEndpoint]

    package init(revoked: [AdminEndpoint], letIn: [AdminEndpoint]) {
        self.revoked = revoked
        self.letIn = letIn
    }
}

/// An endpoint as the operator sees it.
package struct AdminEndpoint: Codable, Hashable, Sendable {
    package var id: String
    /// The account's name.
    package var account: String
    /// The device's name, as the endpoint itself says.
    package var name: String
    package var device: String
    package var isConnected: Bool
    /// Whether it may revoke others and invite.
    package var isEstablished: Bool
    /// Milliseconds since 1970.
    package var joined: Int64
    package var invitedBy: String?
    package var address: String?

    package init(_ row: EndpointRow, account: String, isConnected: Bool) {
        self.id = row.id.description
        self.account = account
        self.name = (try? Unverified<EndpointRecord>(decoding: row.record).payload.name) ?? ""
        self.device = row.system.description
        self.isConnected = isConnected
        self.isEstablished = row.isEstablished
        self.joined = row.joining.time.count
        self.invitedBy = row.joining.invitedBy?.description
        self.address = row.joining.address
    }

    private enum CodingKeys: String, CodingKey {
        case id, account, name, device, joined, invitedBy, address
        case isConnected = "connected"
        case isEstablished = "established"
    }
}
