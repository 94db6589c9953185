// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Begins discovery on this channel, or begins it anew: all endpoints follow, then `enumeration.completed`.
    package struct Watch: NumberedControlMessage {
        package static let type = "watch"
        package var ref: RequestRef

        package init(ref: RequestRef) { self.ref = ref }
    }

    /// Ends discovery on this channel.
    package struct Unwatch: NumberedControlMessage {
        package static let type = "unwatch"
        package var ref: RequestRef

        package init(ref: RequestRef) { self.ref = ref }
    }
}

/// An endpoint's record and what others say of it: whatever introduces a peer carries this.
package struct Introduction: Codable, Hashable, Sendable {
    package var record: Blob<BlobKinds.EndpointRecord>
    package var vouchers: [Blob<BlobKinds.Voucher>]

    package init(record: Blob<BlobKinds.EndpointRecord>, vouchers: [Blob<BlobKinds.Voucher>] = []) {
        self.record = record
        self.vouchers = vouchers
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.record = try container.decode(Blob<BlobKinds.EndpointRecord>.self, forKey: .record)
        self.vouchers = try container.decodeIfPresent([Blob<BlobKinds.Voucher>].self, forKey: .vouchers) ?? []
        // Each of the account's endpoints can vouch once.
        try decoder.limits.check(.endpointsPerAccount, vouchers.count)
    }

    private enum CodingKeys: String, CodingKey {
        case record, vouchers
    }
}

/// How an endpoint came into its account. The relay's word: for people who decide whether to approve it, never a proof.
package struct Joining: Codable, Hashable, Sendable {
    /// When the relay first saw it, in milliseconds since 1970.
    package var time: Milliseconds
    /// The endpoint whose invitation it joined by; absent for an invitation of the operator, or a sign-in.
    package var invitedBy: EndpointID?
    /// The network address that it came from then: an IPv4 or IPv6 address.
    package var address: String?

    package init(time: Milliseconds, invitedBy: EndpointID? = nil, address: String? = nil) {
        self.time = time
        self.invitedBy = invitedBy
        self.address = address
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.time = try container.decode(Milliseconds.self, forKey: .time)
        self.invitedBy = try container.decodeIfPresent(EndpointID.self, forKey: .invitedBy)
        self.address = try container.decodeIfPresent(String.self, forKey: .address)
        guard address.map(Self.isAddress) ?? true else {
            throw DecodingError.dataCorruptedError(forKey: .address, in: container, debugDescription: "not a network address")
        }
    }

    /// The characters of an IP address, at most as many as one with a zone has.
    private static func isAddress(_ text: String) -> Bool {
        (2...64).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }

    private enum CodingKeys: String, CodingKey {
        case time, invitedBy, address
    }
}

extension RelayMessage {
    /// An endpoint of the account: one that is there, or that came.
    package struct EndpointAdded: ControlMessage {
        package static let type = "endpoint.added"
        package var endpoint: EndpointID
        package var introduction: Introduction
        package var registrations: [Blob<BlobKinds.AppRegistration>]
        package var presence: Presence
        /// How it came into the account, where the relay knows.
        package var joining: Joining?

        package init(
            endpoint: EndpointID,
            introduction: Introduction,
            registrations: [Blob<BlobKinds.AppRegistration>],
            presence: Presence,
            joining: Joining? = nil
        ) {
            self.endpoint = endpoint
            self.introduction = introduction
            self.registrations = registrations
            self.presence = presence
            self.joining = joining
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.endpoint = try container.decode(EndpointID.self, forKey: .endpoint)
            self.introduction = try container.decode(Introduction.self, forKey: .introduction)
            self.registrations = try container.decode([Blob<BlobKinds.AppRegistration>].self, forKey: .registrations)
            self.presence = try container.decode(Presence.self, forKey: .presence)
            self.joining = try container.decodeIfPresent(Joining.self, forKey: .joining)
            try decoder.limits.check(registrations)
        }

        private enum CodingKeys: String, CodingKey {
            case endpoint, introduction, registrations, presence, joining
        }
    }

    /// What changed of an endpoint; what is absent has not.
    package struct EndpointUpdated: ControlMessage {
        package static let type = "endpoint.updated"
        package var endpoint: EndpointID
        package var introduction: Introduction?
        /// All of them, not only the changed ones.
        package var registrations: [Blob<BlobKinds.AppRegistration>]?
        package var presence: Presence?

        package init(
            endpoint: EndpointID,
            introduction: Introduction? = nil,
            registrations: [Blob<BlobKinds.AppRegistration>]? = nil,
            presence: Presence? = nil
        ) {
            self.endpoint = endpoint
            self.introduction = introduction
            self.registrations = registrations
            self.presence = presence
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.endpoint = try container.decode(EndpointID.self, forKey: .endpoint)
            self.introduction = try container.decodeIfPresent(Introduction.self, forKey: .introduction)
            self.registrations = try container.decodeIfPresent([Blob<BlobKinds.AppRegistration>].self, forKey: .registrations)
            self.presence = try container.decodeIfPresent(Presence.self, forKey: .presence)
            try decoder.limits.check(registrations ?? [])
        }

        private enum CodingKeys: String, CodingKey {
            case endpoint, introduction, registrations, presence
        }
    }

    /// An endpoint is gone from the account.
    package struct EndpointRemoved: ControlMessage {
        package static let type = "endpoint.removed"
        package var endpoint: EndpointID
        /// It was revoked for ever; without it, it left by itself.
        package var isRevoked: Bool
        /// The signed statement that it was revoked. Absent where it is the relay's word alone: the account's owner revoked the endpoint
        /// at the relay.
        package var revocation: Blob<BlobKinds.Revocation>?

        package init(endpoint: EndpointID, isRevoked: Bool, revocation: Blob<BlobKinds.Revocation>? = nil) {
            self.endpoint = endpoint
            self.isRevoked = isRevoked
            self.revocation = revocation
        }

        private enum CodingKeys: String, CodingKey {
            case endpoint, revocation
            case isRevoked = "revoked"
        }
    }

    /// All endpoints there are have been told; from now on come changes.
    package struct EnumerationCompleted: ControlMessage {
        package static let type = "enumeration.completed"

        package init() {}
    }
}

extension Limits {
    fileprivate func check(_ registrations: [Blob<BlobKinds.AppRegistration>]) throws(LimitExceeded) {
        try check(.appRegistrationsBytes, registrations.reduce(0) { $0 &+ $1.bytes.count })
    }
}
