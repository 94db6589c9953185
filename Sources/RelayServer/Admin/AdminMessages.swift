// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What the operator's commands ask of a relay that runs. One request for each connection.
package struct AdminRequest: Codable, Hashable, Sendable {
    package enum Command: String, Codable, Sendable {
        /// The endpoints of `account`, a name or an id; of all accounts without one.
        case listEndpoints = "endpoint.list"
        /// Revokes `endpoint`, by the operator's word.
        case revokeEndpoint = "endpoint.revoke"
    }

    package var command: Command
    package var account: String?
    package var endpoint: String?

    package init(_ command: Command, account: String? = nil, endpoint: String? = nil) {
        self.command = command
        self.account = account
        self.endpoint = endpoint
    }
}

/// The relay's answer.
package struct AdminAnswer: Codable, Hashable, Sendable {
    /// Why nothing was done.
    package var error: String?
    package var endpoints: [AdminEndpoint]?

    package init(error: String? = nil, endpoints: [AdminEndpoint]? = nil) {
        self.error = error
        self.endpoints = endpoints
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

    package init(_ row: EndpointRow, name: String, account: String, isConnected: Bool) {
        self.id = row.id.description
        self.account = account
        self.name = name
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
