// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Publishes an app, or a newer registration of it.
    package struct Publish: NumberedControlMessage {
        package static let type = "publish"
        package var ref: RequestRef
        package var registration: Blob<BlobKinds.AppRegistration>

        package init(ref: RequestRef, registration: Blob<BlobKinds.AppRegistration>) {
            self.ref = ref
            self.registration = registration
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.registration = try json.member("registration")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("registration", registration)
        }
    }

    /// Withdraws an app. It is no error if the app is not published.
    package struct Unpublish: NumberedControlMessage {
        package static let type = "unpublish"
        package var ref: RequestRef
        package var appID: String

        package init(ref: RequestRef, appID: String) {
            self.ref = ref
            self.appID = appID
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.appID = try json.member("appID")
            guard ProgramText.isValid(appID) else { throw json.invalid("appID") }
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("appID", appID)
        }
    }

    /// Replaces the endpoint's own record: the device was renamed, or the agreement key changed.
    package struct EndpointUpdate: NumberedControlMessage {
        package static let type = "endpoint.update"
        package var ref: RequestRef
        package var record: Blob<BlobKinds.EndpointRecord>

        package init(ref: RequestRef, record: Blob<BlobKinds.EndpointRecord>) {
            self.ref = ref
            self.record = record
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.record = try json.member("record")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("record", record)
        }
    }

    /// Vouches for another endpoint. The relay checks the signature and forwards the voucher. Each endpoint decides whether it accepts the
    /// signer.
    package struct EndpointApprove: NumberedControlMessage {
        package static let type = "endpoint.approve"
        package var ref: RequestRef
        /// The endpoint that the voucher is for.
        package var endpoint: EndpointID
        package var voucher: Blob<BlobKinds.Voucher>

        package init(ref: RequestRef, endpoint: EndpointID, voucher: Blob<BlobKinds.Voucher>) {
            self.ref = ref
            self.endpoint = endpoint
            self.voucher = voucher
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.endpoint = try json.member("endpoint")
            self.voucher = try json.member("voucher")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("endpoint", endpoint)
            json.member("voucher", voucher)
        }
    }

    /// Revokes an endpoint of the account permanently: this endpoint, one of the same device, or any other one if this endpoint is
    /// established.
    package struct EndpointRevoke: NumberedControlMessage {
        package static let type = "endpoint.revoke"
        package var ref: RequestRef
        package var endpoint: EndpointID
        /// Signed by the endpoint that sends this message.
        package var revocation: Blob<BlobKinds.Revocation>

        package init(ref: RequestRef, endpoint: EndpointID, revocation: Blob<BlobKinds.Revocation>) {
            self.ref = ref
            self.endpoint = endpoint
            self.revocation = revocation
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.endpoint = try json.member("endpoint")
            self.revocation = try json.member("revocation")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("endpoint", endpoint)
            json.member("revocation", revocation)
        }
    }

    /// The endpoint is about to close its channel, and states the reason. So the relay knows it at once, and not only after a timeout.
    package struct Leaving: NumberedControlMessage {
        package static let type = "leaving"
        package var ref: RequestRef
        package var reason: Reason

        package init(ref: RequestRef, reason: Reason) {
            self.ref = ref
            self.reason = reason
        }

        /// Why the endpoint closes its channel.
        package enum Reason: String, JSONCodable, Sendable {
            /// The app goes to the background. It can be woken at once.
            case suspended
            /// The account was removed from the endpoint.
            case signedOut
            /// The app or the computer shuts down.
            case shutdown
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.reason = try json.member("reason")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("reason", reason)
        }
    }
}
