// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Says how an app of this endpoint is woken; replaces what was registered for it before.
    package struct NotificationsRegister: NumberedControlMessage {
        package static let type = "notifications.register"
        package var ref: RequestRef
        package var appID: String
        package var displayName: String
        package var channel: PushRegistration

        package init(ref: RequestRef, appID: String, displayName: String, channel: PushRegistration) {
            self.ref = ref
            self.appID = appID
            self.displayName = displayName
            self.channel = channel
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.appID = try json.member("appID")
            self.displayName = try json.member("displayName")
            self.channel = try json.member("channel")
            do throws(RecordError) {
                try json.limits.checkIdentifier(appID, field: "appID")
                try json.limits.checkDisplayName(displayName, field: "displayName", mayBeEmpty: true)
            } catch {
                if case .limitExceeded(let exceeded) = error { throw .tooLarge(exceeded) }
                throw json.invalid("displayName")
            }
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("appID", appID)
            json.member("displayName", displayName)
            json.member("channel", channel)
        }
    }
}

extension RelayMessage {
    /// A push registration of this endpoint changed its state: it nears its end, or its provider no longer takes it.
    package struct NotificationsState: ControlMessage {
        package static let type = "notifications.state"
        package var appID: String
        package var state: State

        package init(appID: String, state: State) {
            self.appID = appID
            self.state = state
        }

        /// Whether a wake would arrive. A string on the wire, so that a newer relay may tell more.
        package struct State: RawRepresentable, JSONCodable, Hashable, Sendable {
            package let rawValue: String

            package init(rawValue: String) { self.rawValue = rawValue }

            /// The provider does not take it any more.
            package static let unregistered = Self(rawValue: "unregistered")
            /// It would.
            package static let registered = Self(rawValue: "registered")
            /// It should be registered anew.
            package static let expiring = Self(rawValue: "expiring")
            /// It must be registered anew.
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
