// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// A new token of the same account. It keeps this channel open.
    package struct AuthRefresh: NumberedControlMessage {
        package static let type = "auth.refresh"
        package var ref: RequestRef
        package var token: Secret<String>

        package init(ref: RequestRef, token: Secret<String>) {
            self.ref = ref
            self.token = token
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.token = try json.member("token")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("token", token)
        }
    }
}

extension EndpointMessage {
    /// Gives the account one more identity: that of a fresh token, usually of another issuer.
    package struct IdentityLink: NumberedControlMessage {
        package static let type = "identity.link"
        package var ref: RequestRef
        package var token: Secret<String>

        package init(ref: RequestRef, token: Secret<String>) {
            self.ref = ref
            self.token = token
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.token = try json.member("token")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("token", token)
        }
    }
}

extension RelayMessage {
    /// The account's identities have changed: someone can now sign in, or cannot any more. The endpoint that linked the identity does not
    /// get it.
    package struct IdentityChanged: ControlMessage {
        package static let type = "identity.changed"
        package var change: Change
        /// The issuer's URL, or `embedded` for the relay's own one.
        package var issuer: String
        /// The endpoint that linked the identity; `nil` if the relay's operator did.
        package var endpoint: EndpointID?
        /// By the relay's clock.
        package var time: Milliseconds

        package init(change: Change, issuer: String, endpoint: EndpointID?, time: Milliseconds) {
            self.change = change
            self.issuer = issuer
            self.endpoint = endpoint
            self.time = time
        }

        /// It is a string on the wire, so that a newer relay can add changes.
        package struct Change: RawRepresentable, JSONCodable, Hashable, Sendable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            package static let linked = Self(rawValue: "linked")
            package static let removed = Self(rawValue: "removed")
        }

        package init(json: JSONValue) throws(JSONError) {
            self.change = try json.member("change")
            self.issuer = try json.member("issuer")
            self.endpoint = try json.optional("endpoint")
            self.time = try json.member("time")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("change", change)
            json.member("issuer", issuer)
            if let endpoint { json.member("endpoint", endpoint) }
            json.member("time", time)
        }
    }

    /// The channel's token expires soon. The relay expects `auth.refresh`.
    package struct AuthExpiring: ControlMessage {
        package static let type = "auth.expiring"
        /// When the token expires, by the relay's clock.
        package var expires: Milliseconds

        package init(expires: Milliseconds) { self.expires = expires }

        package init(json: JSONValue) throws(JSONError) {
            self.expires = try json.member("expires")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("expires", expires)
        }
    }

    /// The channel's token is no longer valid. The relay closes the channel.
    package struct AuthInvalidated: ControlMessage {
        package static let type = "auth.invalidated"
        package var code: ControlErrorCode
        /// A text for people.
        package var message: String

        package init(code: ControlErrorCode, message: String) {
            self.code = code
            self.message = message
        }

        package init(json: JSONValue) throws(JSONError) {
            self.code = try json.member("code")
            self.message = try json.member("message")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("code", code)
            json.member("message", message)
        }
    }

    /// A newer host channel of this endpoint has replaced this one. The endpoint does not reconnect this one by itself.
    package struct Replaced: ControlMessage {
        package static let type = "replaced"

        package init() {}

        package init(json: JSONValue) throws(JSONError) {}

        package func writeMembers(to json: inout JSONWriter) {}
    }

    /// The relay is about to stop.
    package struct Restarting: ControlMessage {
        package static let type = "restarting"
        /// The minimum time before the endpoint reconnects …
        package var after: Milliseconds
        /// … plus a random part of this, so that the endpoints do not all reconnect at once.
        package var spread: Milliseconds

        package init(after: Milliseconds, spread: Milliseconds) {
            self.after = after
            self.spread = spread
        }

        package init(json: JSONValue) throws(JSONError) {
            self.after = try json.member("after")
            self.spread = try json.member("spread")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("after", after)
            json.member("spread", spread)
        }
    }
}
