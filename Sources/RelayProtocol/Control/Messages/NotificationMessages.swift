// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Registers how this endpoint is woken. It replaces the endpoint's earlier registration.
    package struct NotificationsRegister: NumberedControlMessage {
        package static let type = "notifications.register"
        package var ref: RequestRef
        package var appID: String
        package var displayName: String
        package var channel: PushRegistration
        /// Whether the alert of a wake may name the device and the app that launch.
        package var pushNames: Bool

        package init(ref: RequestRef, appID: String, displayName: String, channel: PushRegistration, pushNames: Bool = false) {
            self.ref = ref
            self.appID = appID
            self.displayName = displayName
            self.channel = channel
            self.pushNames = pushNames
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.appID = try json.member("appID")
            self.displayName = try json.member("displayName")
            self.channel = try json.member("channel")
            self.pushNames = try json.optional("pushNames") ?? false
            do throws(RecordError) {
                try json.limits.checkIdentifier(appID, field: "appID")
                try json.limits.checkDisplayName(displayName, field: "displayName", mayBeEmpty: true)
            } catch {
                switch error {
                case .limitExceeded(let exceeded): throw .tooLarge(exceeded)
                case .invalidField(let field): throw json.invalid(field)
                default: throw json.invalid
                }
            }
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("appID", appID)
            json.member("displayName", displayName)
            json.member("channel", channel)
            if pushNames { json.member("pushNames", true) }
        }
    }
}

extension EndpointMessage {
    /// Asks for an answer once no command waits in the mailbox: the endpoint has stored all of them.
    package struct MailboxDrain: NumberedControlMessage {
        package static let type = "mailbox.drain"
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
    /// A push registration of this endpoint has a new state: it is registered, expires soon, or its provider no longer accepts it.
    package struct NotificationsState: ControlMessage {
        package static let type = "notifications.state"
        package var appID: String
        package var state: State

        package init(appID: String, state: State) {
            self.appID = appID
            self.state = state
        }

        /// Whether a wake would arrive. It is a string on the wire, so that a newer relay can add states.
        package struct State: RawRepresentable, JSONCodable, Hashable, Sendable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            /// The provider no longer accepts it.
            package static let unregistered = Self(rawValue: "unregistered")
            /// A wake would arrive.
            package static let registered = Self(rawValue: "registered")
            /// The endpoint should register it again.
            package static let expiring = Self(rawValue: "expiring")
            /// The endpoint must register it again.
            package static let expired = Self(rawValue: "expired")
        }

        package init(json: JSONValue) throws(JSONError) {
            self.appID = try json.member("appID")
            self.state = try json.member("state")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("appID", appID)
            json.member("state", state)
        }
    }
}
