// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Starts or restarts discovery on this channel: all endpoints follow, then `enumeration.completed`.
    package struct Watch: NumberedControlMessage {
        package static let type = "watch"
        package var ref: RequestRef

        package init(ref: RequestRef) { self.ref = ref }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
        }
    }

    /// Ends discovery on this channel.
    package struct Unwatch: NumberedControlMessage {
        package static let type = "unwatch"
        package var ref: RequestRef

        package init(ref: RequestRef) { self.ref = ref }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
        }
    }
}

extension RelayMessage {
    /// An endpoint of the account, listed by an enumeration or added later.
    package struct EndpointAdded: ControlMessage {
        package static let type = "endpoint.added"
        package var endpoint: EndpointID
        package var introduction: Introduction
        package var registrations: [Blob<BlobKinds.AppRegistration>]
        package var presence: Presence
        /// How it joined the account, if the relay knows.
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

        package init(json: JSONValue) throws(JSONError) {
            self.endpoint = try json.member("endpoint")
            self.introduction = try json.member("introduction")
            self.registrations = try json.member("registrations")
            self.presence = try json.member("presence")
            self.joining = try json.optional("joining")
            try json.limits.check(registrations)
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("endpoint", endpoint)
            json.member("introduction", introduction)
            json.member("registrations", registrations)
            json.member("presence", presence)
            json.member("joining", joining)
        }
    }

    /// The changes of an endpoint. A missing field has not changed.
    package struct EndpointUpdated: ControlMessage {
        package static let type = "endpoint.updated"
        package var endpoint: EndpointID
        package var introduction: Introduction?
        /// All registrations, not only changed ones.
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

        package init(json: JSONValue) throws(JSONError) {
            self.endpoint = try json.member("endpoint")
            self.introduction = try json.optional("introduction")
            self.registrations = try json.optional("registrations")
            self.presence = try json.optional("presence")
            try json.limits.check(registrations ?? [])
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("endpoint", endpoint)
            json.member("introduction", introduction)
            json.member("registrations", registrations)
            json.member("presence", presence)
        }
    }

    /// An endpoint was removed from the account.
    package struct EndpointRemoved: ControlMessage {
        package static let type = "endpoint.removed"
        package var endpoint: EndpointID
        /// Whether it was revoked permanently. If not, it left the account by itself.
        package var isRevoked: Bool
        /// The signed revocation. Without it, the relay states that its operator revoked the endpoint.
        package var revocation: Blob<BlobKinds.Revocation>?

        package init(endpoint: EndpointID, isRevoked: Bool, revocation: Blob<BlobKinds.Revocation>? = nil) {
            self.endpoint = endpoint
            self.isRevoked = isRevoked
            self.revocation = revocation
        }

        package init(json: JSONValue) throws(JSONError) {
            self.endpoint = try json.member("endpoint")
            self.isRevoked = try json.member("revoked")
            self.revocation = try json.optional("revocation")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("endpoint", endpoint)
            json.member("revoked", isRevoked)
            json.member("revocation", revocation)
        }
    }

    /// The enumeration has listed all endpoints. Only changes follow.
    package struct EnumerationCompleted: ControlMessage {
        package static let type = "enumeration.completed"

        package init() {}

        package init(json: JSONValue) throws(JSONError) {}

        package func writeMembers(to json: inout JSONWriter) {}
    }
}

extension Limits {
    fileprivate func check(_ registrations: [Blob<BlobKinds.AppRegistration>]) throws(JSONError) {
        try check(.appRegistrationsBytes, registrations.reduce(0) { $0 &+ $1.bytes.count }, as: JSONError.tooLarge)
    }
}
